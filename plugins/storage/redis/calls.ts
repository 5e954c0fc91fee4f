/** Calls Redis: each call ends within `CALL_MS` and reports what may have happened. */
import { StorageError } from "../../../core/model/errors.ts";
import { within } from "../../../core/lib/within.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { CALL_MS, type Client, COMMAND_MS, withoutPlace } from "./connect.ts";
import { type Args, type Script, scriptArgs } from "./script.ts";

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

interface CallOptions {
  /** Whether running it twice is harmless: it is repeated after a lost answer. @default true */
  readonly repeatable?: boolean;
  /** Whether a lost answer leaves open if something was changed. @default false */
  readonly changes?: boolean;
}

export interface Calls {
  /** Runs a script on `KEYS[1]`, the hash tag. @throws StorageError */
  run(script: Script, args: Args, options?: CallOptions): Promise<unknown>;
  /** Any other command. @throws StorageError */
  ask<T>(command: (client: Client) => Promise<T>, options?: CallOptions): Promise<T>;
}

/**
 * Gives large commits a turn of their own, because Redis does nothing else while it runs one. A large commit is sent
 * when this node's other calls have been answered; calls that come meanwhile wait here, where their time-out does not
 * run.
 */
export class ExclusiveTurn {
  readonly #under = new Set<Promise<unknown>>();
  #shut: Promise<unknown> | undefined;
  #last: Promise<unknown> = Promise.resolve();

  /** Runs this beside others of its kind, once no large call is at Redis. */
  async shared<T>(work: () => Promise<T>): Promise<T> {
    while (this.#shut !== undefined) await this.#shut;
    const own = work();
    this.#under.add(own);
    try {
      return await own;
    } finally {
      this.#under.delete(own);
    }
  }

  /** Runs this when no other call is under way, and lets none begin meanwhile. One at a time, in turn. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    const own = this.#last.then(async () => {
      const done = Promise.allSettled(this.#under).then(work);
      this.#shut = done.catch(() => {});
      try {
        return await done;
      } finally {
        this.#shut = undefined;
        // Waiting calls go before the next large one.
        await new Promise((turned) => void setImmediate(turned));
      }
    });
    this.#last = own.catch(() => {});
    return own;
  }
}

/** Sends a script, by its hash or its text, once. `longest`: how long it may take, ms, when that is not the usual. */
export type Evaluate = (
  command: "eval" | "evalsha",
  sent: (string | number)[],
  longest: number | undefined,
) => Promise<unknown>;

interface CallsOptions {
  /** Another way to send a script. */
  readonly evaluate?: Evaluate;
  /** How long a script may take in all, ms, on a client without time-outs of its own. @default CALL_MS, on one with them */
  readonly patience?: (args: Args) => number;
  /** Keeps these calls apart from the large commits of this node. */
  readonly turn?: ExclusiveTurn;
}

export function calls(
  client: Client,
  tag: string,
  clock: Clock,
  { evaluate = (command, sent) => client.call(command, sent), patience: patienceOf, turn }: CallsOptions = {},
): Calls {
  /** A call has timed out, and none has been answered since: other calls need not wait as long again. */
  let gone = false;
  client.on("ready", () => {
    gone = false;
  });

  async function once(one: Script, args: Args, longest: number | undefined): Promise<unknown> {
    const sent = scriptArgs(tag, args);
    try {
      return await evaluate("evalsha", [one.sha, ...sent], longest);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
      return evaluate("eval", [one.text, ...sent], longest);
    }
  }

  /** @param longest for a client without time-outs of its own */
  async function insist<T>(
    command: () => Promise<T>,
    { repeatable = true, changes = false }: CallOptions,
    longest?: number,
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
        const bound = first ? longest : began + patience - tried;
        const answer = command();
        if (bound !== undefined && !(await within(clock, bound, answer))) throw new Error("no answer in time");
        const reply = await answer;
        gone = false;
        return reply;
      } catch (error) {
        failure = classifyError(error);
      }
      const { kind, why } = failure;
      if (kind === "full" || kind === "broken") {
        const what = kind === "full" ? "is out of memory" : "refused a command";
        throw new StorageError(open ? "uncertain" : kind, `Redis ${what} (${why})`);
      }
      const lost = kind === "lost";
      idleSince = lost ? undefined : (idleSince ?? tried);
      if (lost) {
        open ||= changes;
        const tookMs = clock.monotonic() - tried;
        // The next call must not wait behind an answer that may never come.
        if (longest !== undefined) client.disconnect(true);
        // This process was busy, not Redis silent: the answer may have been waiting here.
        else if (tookMs > STALLED_MS && ++stalls <= STALLS) began += tookMs;
      }
      // A large call has long because Redis works on it, not to wait for Redis: other calls wait behind it.
      const until = Math.min(began + patience, (idleSince ?? Number.POSITIVE_INFINITY) + CALL_MS);
      if ((lost && !repeatable) || until - clock.monotonic() <= AGAIN_MS) {
        if (kind !== "refused") gone = true;
        // A caller that retries after an immediate refusal must not starve the connection that comes back.
        await new Promise((resolve) => void setImmediate(resolve));
        throw new StorageError(open ? "uncertain" : "unavailable", `Redis does not answer (${why})`);
      }
      await clock.sleep(clock.now() + AGAIN_MS);
    }
  }

  const inTurn = <T>(work: () => Promise<T>): Promise<T> => (turn === undefined ? work() : turn.shared(work));

  return {
    run(one, args, options = {}) {
      const longest = patienceOf?.(args);
      return inTurn(() => insist(() => once(one, args, longest), options, longest));
    },
    ask: (command, options = {}) => inTurn(() => insist(() => command(client), options)),
  };
}
