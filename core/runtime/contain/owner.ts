/**
 * Remembers which plug-in the running code belongs to, over timers, promises and sockets, so that an exception which nobody
 * catches can be reported as the fault of that plug-in.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { PluginName } from "./incidents.ts";

const owners = new AsyncLocalStorage<PluginName | undefined>();

export type Run = <T>(work: () => T) => T;

/** Returns a function that runs work as a plug-in's. Cheap: the surroundings are made once. */
export const inside = (plugin: PluginName): Run => owners.run(plugin, () => AsyncLocalStorage.snapshot());

/** Returns a function that runs work as the relay's own, even when a plug-in calls it. */
export const outside = (): Run => owners.run(undefined, () => AsyncLocalStorage.snapshot());

/** The plug-in that the running code belongs to. */
export const owner = (): PluginName | undefined => owners.getStore();
