/** A bare relay that stores what the relay stores, when the relay stores it. */
import { serveBare } from "./bare.ts";

await serveBare({ stored: true });
