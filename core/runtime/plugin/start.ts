/** Names the plug-in that cannot start: what it throws is its own fault or its surroundings', never one of the relay. */
import { StartError, StorageError } from "../../model/errors.ts";
import { within } from "../../lib/within.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, Plugin } from "../../ports/plugin.ts";
import { thrownText } from "./thrown.ts";

const EX_DATAERR = 65;
const EX_UNAVAILABLE = 69;
const EX_CONFIG = 78;

/** Surroundings of a start. Without a clock it is waited for without an end. */
interface Starting {
  /** Masks secrets in what is thrown. */
  readonly hide?: (text: string) => string;
  readonly clock?: Clock;
  readonly log?: Pick<Log, "warn">;
  /** A start that takes longer is given up, ms. @default never */
  readonly mostMs?: number;
}

/** A start that takes longer than this is named in the log, again and again, ms. */
const SLOW_MS = 10_000;

/**
 * The result of one step of a plug-in's start.
 * @throws StartError: the plug-in's own as it is; else one with its name, 65 when stored data is damaged, 69 when something
 * outside does not answer or the time is over, 78 otherwise
 */
export async function startOf<T>(
  plugin: Pick<Plugin<string, unknown>, "kind" | "name">,
  step: () => Promise<T> | T,
  starting: Starting = {},
): Promise<T> {
  const { hide = (text: string): string => text } = starting;
  const { kind, name } = plugin;
  try {
    return await inTime(Promise.resolve(step()), plugin, starting);
  } catch (cause) {
    const why = thrownText(cause, false);
    const shown = hide(why);
    // The cause of a message that had to be masked is dropped: a stack would print it.
    const options = shown === why ? { cause } : {};
    if (cause instanceof StartError) throw shown === why ? cause : new StartError(cause.exitCode, shown);
    throw new StartError(codeOf(cause), `the ${kind} plug-in ${name} cannot start: ${shown}`, options);
  }
}

/** @throws StartError 69 when it has not ended in time; what it does later is dropped */
async function inTime<T>(
  work: Promise<T>,
  { kind, name }: Pick<Plugin<string, unknown>, "kind" | "name">,
  { clock, log, mostMs = Infinity }: Starting,
): Promise<T> {
  if (clock === undefined) return await work;
  const began = clock.monotonic();
  while (!(await within(clock, Math.min(SLOW_MS, mostMs), work))) {
    const durationMs = Math.round(clock.monotonic() - began);
    if (durationMs >= mostMs) {
      work.catch(() => undefined);
      throw new StartError(
        EX_UNAVAILABLE,
        `the ${kind} plug-in ${name} cannot start: it has not after ${durationMs} ms`,
      );
    }
    log?.warn("a plug-in is still starting", { kind, plugin: name, durationMs });
  }
  return await work;
}

/** The exit code of a failed start: data is damaged, a system call failed, or the config is wrong. */
function codeOf(error: unknown): number {
  if (error instanceof StorageError) return error.fault === "broken" ? EX_DATAERR : EX_UNAVAILABLE;
  return typeof (error as { syscall?: unknown })?.syscall === "string" ? EX_UNAVAILABLE : EX_CONFIG;
}
