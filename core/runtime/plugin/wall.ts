/**
 * The one wall between the relay and a plug-in: it names the plug-in whose call throws, or is not answered in time. It does not
 * judge what a plug-in answers: the suites of `relaybox/conformance` prove that.
 */
import { Gone } from "../../api/http/body.ts";
import { ConflictError, DamagedRecordError, LeaseLostError, StartError, StorageError } from "../../model/errors.ts";
import { Problem } from "../../model/problem.ts";
import { within } from "../../lib/within.ts";
import type { Clock } from "../../ports/clock.ts";
import { createDeadlines, type Deadlines } from "./deadlines.ts";
import type { Incidents, PluginName } from "./incidents.ts";
import { thrownError } from "./thrown.ts";

/** What the relay throws itself, through a plug-in, or what a storage throws by its port. */
const OURS = [Problem, StorageError, ConflictError, LeaseLostError, DamagedRecordError, Gone];

interface How<T> {
  /** Longest wait, ms. Without it a call that is not answered is named, again and again, and waited for. */
  readonly ms?: number;
  /** After this aborts, the call ends soon. What it rejects with is no fault. */
  readonly signal?: AbortSignal;
  /** Answers in place of a call that throws. May throw. @default throws what the call threw */
  readonly failed?: (error: Error) => Awaited<T>;
  /** Answers in place of a call that is late. @default as `failed` does */
  readonly late?: () => Awaited<T>;
}

export interface Wall {
  readonly plugin: PluginName;
  /** Calls the plug-in, at once and in time. What it throws is noted with its name, unless the relay itself threw it. */
  call<T>(name: string, work: () => T, how?: How<T>): T;
  /** Calls the plug-in where nothing hangs on the answer. Never throws. */
  tell(name: string, work: () => unknown): void;
  /** Waits for the plug-in to let go, so long and no longer. Never rejects. */
  end(name: string, ms: number, work: () => unknown): Promise<void>;
}

/** Returns what makes the wall of each plug-in. One timer serves all of them. */
export function createWalls(clock: Clock, incidents: Incidents): (plugin: PluginName) => Wall {
  const deadlines = createDeadlines(clock);
  return ({ kind, name }) => wallOf({ kind, name }, { clock, incidents, deadlines });
}

interface Around {
  readonly clock: Clock;
  readonly incidents: Incidents;
  readonly deadlines: Deadlines;
}

function wallOf(plugin: PluginName, { clock, incidents, deadlines }: Around): Wall {
  const note = (call: string, error: unknown): void => incidents.note(plugin, call, error);

  function call<T>(name: string, work: () => T, how: How<T> = {}): T {
    const { ms, signal, late } = how;
    const failed = (error: unknown): Awaited<T> => {
      if (OURS.some((one) => error instanceof one) || (signal?.aborted === true && error === signal.reason))
        throw error;
      note(name, error);
      if (how.failed === undefined) throw thrownError(error);
      return how.failed(thrownError(error));
    };
    try {
      const given = work();
      if (!isThenable(given)) return given;
      const lateNow = (error: Error): Awaited<T> => {
        if (late === undefined) throw error;
        note(name, error);
        return late();
      };
      const watched = { ms, signal, late: lateNow, waits: (error: Error) => note(name, error) };
      return deadlines.bound(given as PromiseLike<Awaited<T>>, watched).catch(failed) as T;
    } catch (error) {
      return failed(error) as T;
    }
  }

  return {
    plugin,
    call,
    tell: (name, work) => void call(name, work, { failed: () => undefined }),
    async end(name, ms, work) {
      try {
        if (await within(clock, ms, Promise.resolve(work()))) return;
        note(name, new Error(`not done within ${Math.round(ms)} ms`));
      } catch (error) {
        note(name, error);
      }
    },
  };
}

/**
 * @param of what stands before the names of the methods: `queue.`
 * @throws StartError 78 when what `setup` returned lacks a method of the port
 */
export function checkPort(port: unknown, { kind, name }: PluginName, methods: readonly string[], of = ""): void {
  const has = (method: string): boolean =>
    typeof (port as Record<string, unknown> | undefined)?.[method] === "function";
  const lacks = methods.filter((method) => !has(method)).map((method) => of + method);
  if (lacks.length === 0) return;
  throw new StartError(78, `the ${kind} plug-in ${name} cannot start: its setup returns no ${lacks.join("(), no ")}()`);
}

export const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as { readonly then?: unknown } | undefined)?.then === "function";
