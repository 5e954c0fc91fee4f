/** Calls Redis: each call ends within `CALL_MS` and reports what may have happened. */
import { createHash } from "node:crypto";
import { StorageError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { CALL_MS, type Client, COMMAND_MS, withoutPlace } from "./connect.ts";
import type { ExclusiveTurn } from "./exclusive-turn.ts";
import { type Args, scriptArgs } from "./packed.ts";

/** Wait between tries while there is no connection, ms. */
const AGAIN_MS = 40;
/** A try that took longer than its bound was delayed by this process itself. It does not count, up to a limit. */
const STALLED_MS = COMMAND_MS + 100;
const STALLS = 3;

/**
 * What a failure means. `refused`: Redis refused before any change, and may accept soon. `unsent`: the call never left.
 * `lost`: it may or may not have been carried out.
 */
type Failure = { readonly kind: "refused" | "unsent" | "lost" | "full" | "broken"; readonly why: string };

const REFUSED =
  /^(LOADING|MASTERDOWN|CLUSTERDOWN|READONLY|NOREPLICAS|TRYAGAIN|BUSY|MISCONF|UNBLOCKED|Too many Cluster redirections|ERR max number of clients)/;
const UNSENT =
  /(isn't writeable|Cluster isn't ready|None of startup nodes|Failed to refresh slots|Cluster is ended|ECONNREFUSED|ENOTFOUND|EAI_AGAIN)/;

export function classifyError(error: unknown): Failure {
  const why = withoutPlace(error instanceof Error ? error.message : String(error));
  if (why.startsWith("OOM")) return { kind: "full", why };
  if (REFUSED.test(why)) return { kind: "refused", why };
  if (UNSENT.test(why)) return { kind: "unsent", why };
  if (error instanceof Error && error.name === "ReplyError") return { kind: "broken", why };
  return { kind: "lost", why };
}

/** A script, known to Redis by its hash. */
export interface Script {
  readonly text: string;
  readonly sha: string;
}
export const script = (text: string): Script => ({ text, sha: createHash("sha1").update(text).digest("hex") });

export interface CallOptions {
  /** Whether running it twice is harmless: it is repeated after a lost answer. */
  readonly repeatable: boolean;
  /** Whether a lost answer leaves open if something was changed. */
  readonly changes: boolean;
}

export interface Calls {
  /** Runs a script on `KEYS[1]`, the hash tag. @throws StorageError */
  run(script: Script, args: Args, options: CallOptions): Promise<unknown>;
  /** Any other command. @throws StorageError */
  ask<T>(command: (client: Client) => Promise<T>, options: CallOptions): Promise<T>;
}

/** Runs a script on `KEYS[1]`, the hash tag, once. */
export type Evaluate = (script: Script, args: Args) => Promise<unknown>;

interface CallsOptions {
  /** Another way to run a script. */
  readonly evaluate?: Evaluate;
  /** How long a script may take in all, ms, on a client without time-outs of its own. @default CALL_MS, on one with them */
  readonly patience?: (args: Args) => number;
  /** Shut while a large commit of this node is at Redis. */
  readonly gate?: ExclusiveTurn;
}

export function calls(
  client: Client,
  tag: string,
  clock: Clock,
  { evaluate, patience: patienceOf, gate }: CallsOptions = {},
): Calls {
  /** A call has timed out, and none has been answered since: other calls need not wait as long again. */
  let gone = false;
  client.on("ready", () => {
    gone = false;
  });

  // In one list: a call with separate arguments ends with a RangeError when there are too many.
  const once =
    evaluate ??
    (async (one: Script, args: Args): Promise<unknown> => {
      const sent = scriptArgs(tag, args);
      try {
        return await client.call("evalsha", [one.sha, ...sent]);
      } catch (error) {
        if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
        return client.call("eval", [one.text, ...sent]);
      }
    });

  async function within<T>(ms: number, answer: Promise<T>): Promise<T> {
    const over = new AbortController();
    const late = clock.sleep(clock.now() + ms, over.signal).then(
      () => {
        throw new Error("no answer in time");
      },
      () => new Promise<never>(() => {}),
    );
    try {
      return await Promise.race([answer, late]);
    } finally {
      answer.catch(() => {});
      late.catch(() => {});
      over.abort();
    }
  }

  async function ask<T>(command: () => Promise<T>, options: CallOptions, longest?: number): Promise<T> {
    while (gate?.shut !== undefined) await gate.shut;
    gate?.begin();
    try {
      return await insist(command, options, longest);
    } finally {
      gate?.end();
    }
  }

  /** @param longest for a client without time-outs of its own */
  async function insist<T>(
    command: () => Promise<T>,
    { repeatable, changes }: CallOptions,
    longest: number | undefined,
  ): Promise<T> {
    let began = clock.monotonic();
    let stalls = 0;
    const patience = gone ? 0 : (longest ?? CALL_MS);
    let open = false;
    /** Since when Redis has not been there, or has refused every try. */
    let idleSince: number | undefined;
    for (let first = true; ; first = false) {
      let failure: Failure;
      const tried = clock.monotonic();
      try {
        // The first try is bounded by the client's own timeout; later ones only have the time that is left.
        const bounded = first && longest === undefined;
        const left = first && longest !== undefined ? longest : began + patience - clock.monotonic();
        const reply = bounded ? await command() : await within(left, command());
        gone = false;
        return reply;
      } catch (error) {
        failure = classifyError(error);
      }
      if (failure.kind === "full")
        throw new StorageError(open ? "uncertain" : "full", `Redis is out of memory (${failure.why})`);
      if (failure.kind === "broken")
        throw new StorageError(open ? "uncertain" : "broken", `Redis refused a command (${failure.why})`);
      if (failure.kind === "lost" && changes) open = true;
      // This process was busy, not Redis silent: the answer may have been waiting here.
      const tookMs = clock.monotonic() - tried;
      if (failure.kind === "lost" && tookMs > STALLED_MS && longest === undefined && ++stalls <= STALLS)
        began += tookMs;
      // The next call must not wait behind an answer that may never come.
      if (failure.kind === "lost" && longest !== undefined) client.disconnect(true);
      idleSince = failure.kind === "lost" ? undefined : (idleSince ?? tried);
      // A large call has long because Redis works on it, not to wait for Redis: other calls wait behind it.
      const until = Math.min(began + patience, (idleSince ?? Number.POSITIVE_INFINITY) + CALL_MS);
      const left = until - clock.monotonic();
      if ((failure.kind === "lost" && !repeatable) || left <= AGAIN_MS) {
        if (failure.kind !== "refused") gone = true;
        // A caller that retries after an immediate refusal must not starve the connection that comes back.
        await new Promise((resolve) => void setImmediate(resolve));
        throw new StorageError(open ? "uncertain" : "unavailable", `Redis does not answer (${failure.why})`);
      }
      await clock.sleep(clock.now() + AGAIN_MS);
    }
  }

  return {
    run: (one, args, options) => ask(() => once(one, args), options, patienceOf?.(args)),
    ask: (command, options) => ask(() => command(client), options),
  };
}
