/**
 * The door of this room for the command: how to run a relay. What is heavy is loaded when it is asked for, since most commands
 * only speak to a relay's API. `offline.ts` is the door for commands that open the storage themselves.
 */
export { systemClock } from "./clock.ts";
export { keepHeapTidy } from "./v8-settings.ts";
export { createRunner, freezeShared } from "./transforms/run.ts";
export type { ProcessStart, RunAnswer, RunRequest, SpawnTransforms } from "./transforms/worker.ts";
export type { Relay } from "./compose/compose.ts";
export type { Reloadable } from "./compose/reload.ts";

// Loads what runs a node, and the log and metrics.
export const nodeParts = () => import("./compose/compose.ts");
export const observabilityParts = () => import("./observability/index.ts");
