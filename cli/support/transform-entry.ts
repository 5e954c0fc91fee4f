/** Starts the program of a process that runs transforms. */
import { runTransforms } from "./transform-program.ts";

runTransforms();
