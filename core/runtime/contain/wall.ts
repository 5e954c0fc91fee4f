/** What the walls around plug-ins share: notes, deadlines, and calls that cannot throw. */
import { StartError } from "../../model/errors.ts";
import { within } from "../../model/within.ts";
import type { Clock } from "../../ports/clock.ts";
import type { CallDeadlines } from "./deadlines.ts";
import type { Incidents, PluginName } from "./incidents.ts";
import { inside, outside, type Run } from "./owner.ts";
import { thrownText } from "./thrown.ts";

export interface Walls {
  readonly clock: Clock;
  readonly incidents: Incidents;
  readonly deadlines: CallDeadlines;
}

/** The walls of one plug-in. */
export interface Wall extends Walls {
  readonly plugin: PluginName;
  /** Runs the plug-in's code as its own. */
  readonly inside: Run;
  /** Runs the relay's code as the relay's, when the plug-in calls it. */
  readonly outside: Run;
  readonly note: (call: string, error: unknown) => void;
  /** Calls the plug-in where nothing hangs on the answer. Never throws. */
  tell(call: string, work: () => unknown): void;
  /** Waits for the plug-in to let go, so long and no longer. Never rejects. */
  end(call: string, ms: number, work: () => unknown): Promise<void>;
}

export function wallOf({ kind, name }: PluginName, walls: Walls): Wall {
  const plugin = { kind, name };
  const run = inside(plugin);
  const note = (call: string, error: unknown): void => walls.incidents.note(plugin, call, error);
  return {
    ...walls,
    plugin,
    note,
    inside: run,
    outside: outside(),
    tell(call, work) {
      try {
        const given = run(work);
        if (isThenable(given)) Promise.resolve(given).catch((error: unknown) => note(call, error));
      } catch (error) {
        note(call, error);
      }
    },
    async end(call, ms, work) {
      try {
        if (await within(walls.clock, ms, Promise.resolve(run(work)))) return;
        note(call, new Error(`not done within ${Math.round(ms)} ms`));
      } catch (error) {
        note(call, error);
      }
    },
  };
}

export const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as { readonly then?: unknown } | undefined)?.then === "function";

/** What a plug-in says of itself. One that fails to say anything is not ready. Never throws. */
export function reasonOf(readiness: () => unknown): string | undefined {
  try {
    const why = readiness();
    return why === undefined || typeof why === "string" ? why : "its readiness is no text";
  } catch (error) {
    return `its readiness fails: ${thrownText(error)}`;
  }
}

/** The member of what may be anything, and may throw when it is read. */
function memberOf(port: unknown, name: string): unknown {
  try {
    return (port as Record<string, unknown> | undefined)?.[name];
  } catch {
    return undefined;
  }
}

/**
 * @param of what stands before the names of the methods: `queue.`
 * @throws StartError 78 when what `setup` returned lacks a method of the port
 */
export function checkPort(port: unknown, { kind, name }: PluginName, methods: readonly string[], of = ""): void {
  const lacks = methods.filter((method) => typeof memberOf(port, method) !== "function").map((method) => of + method);
  if (lacks.length === 0) return;
  throw new StartError(78, `the ${kind} plug-in ${name} cannot start: its setup returns no ${lacks.join("(), no ")}()`);
}
