/** Calls Redis: each call ends within `CALL_MS` and reports what may have happened. */
import { causeOf } from "../../../core/lib/reason.ts";
import { StorageError } from "../../../core/model/errors.ts";
import { within } from "../../../core/lib/within.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { CALL_MS, type Client, COMMAND_MS, faultBehind, withoutPlace } from "./connect.ts";
import { type Args, type Script, scriptArgs } from "./script.ts";

/** Wait between tries while there is no connection, ms. */
const AGAIN_MS = 40;
/** A try that took longer than its bound was delayed by this process itself. It does not count, up to a limit. */
const STALLED_MS = COMMAND_MS + 100;
const STALLS = 3;

/**
 * The kinds of failure. `refused`: Redis refused before any change, and may accept soon. `unsent`: the call never left.
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
  /** Running it twice is harmless: it is repeated after a lost answer. @default true */
  readonly repeatable?: boolean;
  /** A lost answer leaves open if something was changed. @default false */
  readonly changes?: boolean;
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

export class Calls {
  readonly #client: Client;
  readonly #tag: string;
  readonly #clock: Clock;
  readonly #options: CallsOptions;
  /** A call has timed out, and none has been answered since: other calls need not wait as long again. */
  #gone = false;

  constructor(client: Client, tag: string, clock: Clock, options: CallsOptions = {}) {
    this.#client = client;
    this.#tag = tag;
    this.#clock = clock;
    this.#options = options;
    client.on("ready", () => {
      this.#gone = false;
    });
  }

  /** Runs a script on `KEYS[1]`, the hash tag. @throws StorageError */
  run(one: Script, args: Args, options: CallOptions = {}): Promise<unknown> {
    const longest = this.#options.patience?.(args);
    return this.#inTurn(() => this.#insist(() => this.#send(one, args, longest), options, longest));
  }

  /** Runs any other command. @throws StorageError */
  ask<T>(command: (client: Client) => Promise<T>, options: CallOptions = {}): Promise<T> {
    return this.#inTurn(() => this.#insist(() => command(this.#client), options));
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const { turn } = this.#options;
    return turn === undefined ? work() : turn.shared(work);
  }

  async #send(one: Script, args: Args, longest: number | undefined): Promise<unknown> {
    const { evaluate = (command, texts) => this.#client.call(command, texts) } = this.#options;
    const sent = scriptArgs(this.#tag, args);
    try {
      return await evaluate("evalsha", [one.sha, ...sent], longest);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
      return evaluate("eval", [one.text, ...sent], longest);
    }
  }

  /**
   * Repeats a command until it is answered, cannot be, or has had its time.
   * @param longest for a client without time-outs of its own
   */
  async #insist<T>(
    command: () => Promise<T>,
    { repeatable = true, changes = false }: CallOptions,
    longest?: number,
  ): Promise<T> {
    const clock = this.#clock;
    const patience = this.#gone ? 0 : (longest ?? CALL_MS);
    let began = clock.monotonic();
    let stalls = 0;
    let open = false;
    /** Since when Redis has not been there, or has refused every try. */
    let idleSince: number | undefined;
    for (let first = true; ; first = false) {
      const tried = clock.monotonic();
      // The first try is bounded by the client's own timeout; later ones only have the time that is left.
      const { reply, failure } = await this.#tryOnce(command, first ? longest : began + patience - tried);
      if (failure === undefined) return reply as T;
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
        if (longest !== undefined) this.#client.disconnect(true);
        // This process was busy, not Redis silent: the answer may have been waiting here.
        else if (tookMs > STALLED_MS && ++stalls <= STALLS) began += tookMs;
      }
      // A large call has long because Redis works on it, not to wait for Redis: other calls wait behind it.
      const until = Math.min(began + patience, (idleSince ?? Number.POSITIVE_INFINITY) + CALL_MS);
      if ((lost && !repeatable) || until - clock.monotonic() <= AGAIN_MS) {
        if (kind !== "refused") this.#gone = true;
        // A caller that retries after an immediate refusal must not starve the connection that comes back.
        await new Promise((resolve) => void setImmediate(resolve));
        throw new StorageError(open ? "uncertain" : "unavailable", `Redis does not answer (${why})`);
      }
      await clock.sleep(clock.now() + AGAIN_MS);
    }
  }

  async #tryOnce<T>(
    command: () => Promise<T>,
    bound: number | undefined,
  ): Promise<{ readonly reply?: T; readonly failure?: Failure }> {
    try {
      const answer = command();
      if (bound !== undefined && !(await within(this.#clock, bound, answer))) throw new Error("no answer in time");
      const reply = await answer;
      this.#gone = false;
      return { reply };
    } catch (error) {
      const failure = classifyError(error);
      const behind = faultBehind(this.#client, error);
      return { failure: behind === error ? failure : { ...failure, why: causeOf(behind) } };
    }
  }
}
