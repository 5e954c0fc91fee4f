/** Sends the requests of the client: follows no redirect, waits when asked to come back later, reads no answer without end. */
import { setTimeout } from "node:timers/promises";
import type { FetchResponse } from "ofetch";
import { ForeignAnswer, NoAnswer, RelayProblem } from "./problem.ts";

/** A token, or what gives one; it is asked before each request. */
export type Token = string | (() => string | Promise<string>);

export interface ClientOptions {
  /** Where the relay is, such as `https://relay.example.com`; a path in it stays. */
  readonly url: string;
  /** An access token of the management API. */
  readonly token?: Token;
  /** A token that may publish. */
  readonly publishToken?: Token;
  /** @default Node's own; one of undici brings authorities and proxies of its own */
  readonly fetch?: typeof fetch;
  /** Time for a whole answer, or for the beginning of a stream, ms. @default 45,000: a test event alone may take 30 s */
  readonly timeoutMs?: number;
  /** How often one request is tried again: after a 429, and where it can be repeated, after 503 or no answer. @default 10 */
  readonly retries?: number;
  /** A `Retry-After` beyond this is for the caller to decide, seconds. @default 60 */
  readonly longestWaitS?: number;
  /** A wait is longer by up to this share, so that many clients do not come back at once. @default 0.2 */
  readonly jitter?: number;
  /** Called before each wait. @param ms how long it is */
  readonly onWait?: (error: RelayProblem | NoAnswer, ms: number) => void;
  /** Reads the JSON of an answer. @default JSON.parse, where numbers beyond 2^53 lose digits */
  readonly parse?: (text: string) => unknown;
  /** Resolves after `ms`, and rejects when the signal aborts. @default by setTimeout */
  readonly sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
}

interface Asked {
  /** The body, as it is sent. */
  readonly text?: string | undefined;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal | undefined;
  /** True: the publish token is sent; doing it twice does it once. */
  readonly publishes?: boolean;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Its JSON; undefined where there is none. */
  readonly body: unknown;
}

interface Enveloped extends Omit<Answer, "body"> {
  /** Undefined of a 204. */
  readonly data: unknown;
  readonly meta: { readonly nextCursor?: string; readonly searchedTo?: string; readonly warnings?: readonly string[] };
}

/** More than any answer of a relay, characters. */
const LONGEST = 64 * 1_048_576;
const FIRST_PAUSE_MS = 500;

type Sleep = NonNullable<ClientOptions["sleep"]>;
const byTimer: Sleep = (ms, signal) => setTimeout(ms, undefined, { signal });

/** Every method rejects with RelayProblem, NoAnswer, ForeignAnswer, or with the reason of the caller's signal. */
export class Http {
  readonly #options: ClientOptions;
  readonly #base: string;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#base = options.url.replace(/\/+$/, "");
  }

  /** @param path with its query */
  ask(method: string, path: string, asked: Asked = {}): Promise<Answer> {
    return this.#tried(asked, async (how) => {
      const answer = await this.#send(method, path, "application/json", how);
      const { status, headers } = answer;
      const body = status === 204 ? undefined : ((await this.#read(answer)) ?? this.#foreign());
      return { status, headers, body };
    });
  }

  /** The same of an answer with an envelope. @throws ForeignAnswer for one without */
  async data(method: string, path: string, asked?: Asked): Promise<Enveloped> {
    const { status, headers, body } = await this.ask(method, path, asked);
    const { data, meta = {} } = (body ?? {}) as Partial<Enveloped>;
    if (data === undefined && status !== 204) this.#foreign();
    return { status, headers, data, meta };
  }

  /** Resolves to the body of an answer that may have no end. */
  follow(path: string, type: string, asked: Asked = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#tried(asked, async (how) => {
      const { status, body, headers } = await this.#send("GET", path, `${type}, */*`, how);
      if (status === 200 && body && headers.get("content-type")?.startsWith(type) === true) return body;
      await body?.cancel();
      return this.#foreign();
    });
  }

  /** Tries until there is an answer that is not to be waited for, each time within its time. */
  async #tried<T>(asked: Asked, work: (how: Sent) => Promise<T>): Promise<T> {
    const { retries = 10, onWait, sleep = byTimer, timeoutMs = 45_000, ...options } = this.#options;
    const { signal, publishes = false } = asked;
    const given = publishes ? options.publishToken : options.token;
    for (let tries = 0; ; tries++) {
      const token = typeof given === "function" ? await given() : given;
      try {
        const ended = (late: AbortSignal): AbortSignal => (signal ? AbortSignal.any([signal, late]) : late);
        return await inTime(timeoutMs, sleep, (late) => work({ ...asked, token, signal: ended(late) }));
      } catch (cause) {
        signal?.throwIfAborted();
        const told = cause instanceof RelayProblem || cause instanceof ForeignAnswer;
        const why = `no answer from ${this.#base}: ${(cause as Error).message}`;
        const error = told ? cause : new NoAnswer(why, { cause });
        const ms = tries < retries ? this.#pauseOf(error, tries, publishes) : undefined;
        if (ms === undefined || error instanceof ForeignAnswer) throw error;
        onWait?.(error, ms);
        await sleep(ms, signal).catch(() => signal?.throwIfAborted());
      }
    }
  }

  /** Returns how long to wait before the next try, ms; undefined where there is none. */
  #pauseOf(error: unknown, tries: number, repeatable: boolean): number | undefined {
    const { longestWaitS = 60, jitter = 0.2 } = this.#options;
    const later = (ms: number): number => Math.ceil(ms * (1 + jitter * Math.random()));
    if (error instanceof NoAnswer && repeatable)
      return later(Math.min(FIRST_PAUSE_MS * 2 ** tries, longestWaitS * 1_000));
    if (!(error instanceof RelayProblem)) return undefined;
    const { status, retryAfter = Number.POSITIVE_INFINITY } = error;
    const isLater = status === 429 || (repeatable && status === 503);
    return isLater && retryAfter <= longestWaitS ? later(retryAfter * 1_000) : undefined;
  }

  /** @throws RelayProblem, and what the network throws */
  async #send(method: string, path: string, accept: string, how: Sent): Promise<Streamed> {
    const { text, headers = {}, token, signal } = how;
    const { createFetch, ofetch } = await import("ofetch");
    const { fetch: own } = this.#options;
    const type = text === undefined ? undefined : "application/json";
    const all = { accept, "content-type": type, authorization: token && `Bearer ${token}`, ...headers };
    const answer: Streamed = await (own ? createFetch({ fetch: own }) : ofetch).raw(this.#base + path, {
      method,
      headers: Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== undefined),
      body: text,
      signal,
      responseType: "stream",
      ignoreResponseError: true,
      redirect: "error",
      retry: 0,
    });
    if (answer.ok) return answer;
    throw new RelayProblem(answer.status, await this.#read(answer), answer.headers.get("retry-after"));
  }

  /** Returns the JSON of an answer; undefined where it has none. */
  async #read({ body }: Streamed): Promise<unknown> {
    const decoder = new TextDecoder();
    let text = "";
    for await (const part of body ?? []) {
      text += decoder.decode(part, { stream: true });
      if (text.length > LONGEST) throw new ForeignAnswer(`${this.#base} answers more than a relay does`);
    }
    try {
      return (this.#options.parse ?? JSON.parse)(text + decoder.decode());
    } catch {
      return undefined;
    }
  }

  #foreign(): never {
    throw new ForeignAnswer(`${this.#base} answers, but it is no relay`);
  }
}

/** One try. */
type Sent = Asked & { readonly token: string | undefined };
type Streamed = FetchResponse<ReadableStream<Uint8Array>>;

/**
 * Runs `work` with a signal that aborts `ms` milliseconds later. Once `work` has ended, the signal aborts no more.
 * @throws Error `none within … s` when the work fails after that; else what the work throws
 */
export async function inTime<T>(ms: number, sleep: Sleep, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const [late, over] = [new AbortController(), new AbortController()];
  const wait = sleep(ms, over.signal).then(
    () => late.abort(new Error(`none within ${ms / 1_000} s`)),
    () => undefined,
  );
  try {
    return await work(late.signal);
  } catch (error) {
    throw late.signal.aborted ? late.signal.reason : error;
  } finally {
    over.abort();
    await wait;
  }
}
