/**
 * Says whose fault an exception is that nobody caught. One in a plug-in's own timer, promise or socket leaves only that
 * plug-in in doubt: it is noted, and the relay goes on. Any other may have left the relay itself half way through something;
 * what it has acknowledged is stored, so ending the process and starting again loses nothing.
 */
import type { Incidents } from "./incidents.ts";
import { owner } from "./owner.ts";

/** @returns whether a plug-in was to blame; then nothing more is to be done */
export function blame(incidents: Incidents, error: unknown): boolean {
  const plugin = owner();
  if (plugin === undefined) return false;
  incidents.note(plugin, "background", error);
  return true;
}
