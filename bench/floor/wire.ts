/** A bare relay that stores nothing. */
import { serveBare } from "./bare.ts";

await serveBare({ stored: false });
