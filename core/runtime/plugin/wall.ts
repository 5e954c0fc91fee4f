/**
 * The one wall between the relay and a plug-in that the operator imports: it names the plug-in whose call throws, or is not
 * answered in time. It does not judge what a plug-in answers: the suites of `relaybox/conformance` prove that, and of the
 * package's own plug-ins all the rest.
 */
import { Gone } from "../../api/http/body.ts";
import { ConflictError, DamagedRecordError, LeaseLostError, StartError, StorageError } from "../../model/errors.ts";
import { Problem } from "../../model/problem.ts";
import { within } from "../../lib/within.ts";
import type { Clock } from "../../ports/clock.ts";
import { isOwn } from "../../ports/own-plugins.ts";
import type { Incidents, PluginName } from "./incidents.ts";
import { thrownError } from "./thrown.ts";

/** Errors that the relay throws itself, through a plug-in, or what a storage throws by its port. */
const OURS = [Problem, StorageError, ConflictError, LeaseLostError, DamagedRecordError, Gone];
/** Time that a call gets beyond its time, so that its own deadline comes first, and so does an answer while the process stood still. */
const SPARE_MS = 1_500;
/** A call that may take as long as it takes is named each time that this has passed, ms. */
const NAMED_MS = 30_000;

/** How a call is made. */
export interface How<T = unknown> {
  /** Longest wait, ms; then the call never throws at once. Without it a call that is not answered is named again and again. */
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
  /** True when it is the package's own, which is called directly, and only waited for to let go. */
  readonly own: boolean;
  /** Calls the plug-in, at once and in time. What it throws is noted with its name, unless the relay itself threw it. */
  call<T>(name: string, work: () => T, how?: How<T>): T;
  /** Waits for the plug-in to let go, so long and no longer. Never rejects. */
  end(name: string, ms: number, work: () => unknown): Promise<void>;
}

/** Returns what makes the wall of each plug-in. */
export const createWalls =
  (clock: Clock, incidents: Incidents) =>
  (plugin: PluginName): Wall => {
    const { kind, name: called } = plugin;
    const note = (call: string, error: unknown): void => incidents.note({ kind, name: called }, call, error);

    async function answered<T>(name: string, given: Promise<T>, { ms, signal, late }: How<T>): Promise<T> {
      if (ms === undefined) {
        while (!(await within(clock, NAMED_MS, given))) note(name, new Error(`no answer for ${NAMED_MS / 1_000} s`));
        return await given;
      }
      if ((await within(clock, ms, given, signal)) || (await within(clock, SPARE_MS, given))) return await given;
      if (signal?.aborted) throw signal.reason;
      const error = new Error(`no answer within ${ms} ms`);
      if (late === undefined) throw error;
      note(name, error);
      return late();
    }

    function call<T>(name: string, work: () => T, how: How<T> = {}): T {
      const { ms, signal } = how;
      const failed = (error: unknown): Awaited<T> => {
        if (OURS.some((one) => error instanceof one) || (signal?.aborted === true && error === signal.reason))
          throw error;
        note(name, error);
        if (how.failed === undefined) throw thrownError(error);
        return how.failed(thrownError(error));
      };
      try {
        const given = ms === undefined ? work() : Promise.try(work);
        if (!isThenable(given)) return given as T;
        return answered(name, Promise.resolve(given) as Promise<Awaited<T>>, how as How<Awaited<T>>).catch(failed) as T;
      } catch (error) {
        return failed(error) as T;
      }
    }

    return {
      plugin,
      own: isOwn(plugin),
      call,
      async end(name, ms, work) {
        try {
          if (await within(clock, ms, Promise.resolve(work()))) return;
          note(name, new Error(`not done within ${Math.round(ms)} ms`));
        } catch (error) {
          note(name, error);
        }
      },
    };
  };

type Members = Readonly<Record<string, unknown>> | undefined;

/**
 * @param methods names with spaces between them, those of a part as `queue.add`
 * @throws StartError 78 when what `setup` returned lacks a method of the port
 */
export function checkPort(port: unknown, { kind, name }: PluginName, methods: string): void {
  const read = (method: string): unknown => method.split(".").reduce((at, part) => (at as Members)?.[part], port);
  const lacks = methods.split(" ").filter((method) => typeof read(method) !== "function");
  if (lacks.length === 0) return;
  throw new StartError(78, `the ${kind} plug-in ${name} cannot start: its setup returns no ${lacks.join("(), no ")}()`);
}

const isThenable = (value: unknown): boolean =>
  typeof (value as { readonly then?: unknown } | undefined)?.then === "function";
