/** Sends the requests of the client: follows no redirect, waits when asked to come back later, reads no answer without end. */
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

export interface Asked {
  /** The body, as it is sent. */
  readonly text?: string | undefined;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal | undefined;
  /** True: doing it twice does it once. */
  readonly repeatable?: boolean;
  /** True: the publish token is sent. */
  readonly publishes?: boolean;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Its JSON; undefined where there is none. */
  readonly body: unknown;
}

interface Meta {
  readonly nextCursor?: string;
  readonly searchedTo?: string;
  readonly warnings?: readonly string[];
}

export interface Enveloped extends Omit<Answer, "body"> {
  /** Undefined of a 204. */
  readonly data: unknown;
  readonly meta: Meta;
}

/** More than any answer of a relay, bytes. */
const LONGEST = 64 * 1_048_576;
const FIRST_PAUSE_MS = 500;

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
    return this.#tried(asked, async (signal) => {
      const { status, headers, body } = await this.#send(method, path, "application/json", asked, signal);
      if (status === 204) return { status, headers, body: undefined };
      const text = await this.#textOf(body);
      try {
        return { status, headers, body: this.#parse(text) };
      } catch {
        throw this.#foreign();
      }
    });
  }

  /** The same of an answer with an envelope. @throws ForeignAnswer for one without */
  async data(method: string, path: string, asked?: Asked): Promise<Enveloped> {
    const { status, headers, body } = await this.ask(method, path, asked);
    const { data, meta = {} } = (body ?? {}) as Pick<Enveloped, "data"> & { readonly meta?: Meta };
    if (data === undefined && status !== 204) throw this.#foreign();
    return { status, headers, data, meta };
  }

  /** Resolves to the body of an answer that may have no end. */
  follow(path: string, type: string, asked: Asked = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#tried(asked, async (signal) => {
      const { status, body, headers } = await this.#send("GET", path, `${type}, */*`, asked, signal);
      if (status === 200 && body !== undefined && headers.get("content-type")?.startsWith(type) === true) return body;
      await body?.cancel();
      throw this.#foreign();
    });
  }

  /** Tries until there is an answer that is not to be waited for, each time within its time. */
  async #tried<T>({ signal, repeatable = false }: Asked, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { retries = 10, onWait, sleep = byTimer } = this.#options;
    for (let tries = 0; ; tries++) {
      try {
        return await this.#inTime(signal, work);
      } catch (error) {
        signal?.throwIfAborted();
        const ms = tries < retries ? this.#pauseOf(error, tries, repeatable) : undefined;
        if (ms === undefined) throw error;
        onWait?.(error as RelayProblem | NoAnswer, ms);
        await sleep(ms, signal);
      }
    }
  }

  /** Returns how long to wait before the next try, ms; undefined where there is none. */
  #pauseOf(error: unknown, tries: number, repeatable: boolean): number | undefined {
    const { longestWaitS = 60, jitter = 0.2 } = this.#options;
    const later = (ms: number): number => Math.ceil(ms * (1 + jitter * Math.random()));
    if (error instanceof NoAnswer)
      return repeatable ? later(Math.min(FIRST_PAUSE_MS * 2 ** tries, longestWaitS * 1_000)) : undefined;
    if (!(error instanceof RelayProblem)) return undefined;
    const { status, retryAfter } = error;
    const isLater = status === 429 || (repeatable && status === 503);
    return isLater && retryAfter !== undefined && retryAfter <= longestWaitS ? later(retryAfter * 1_000) : undefined;
  }

  async #inTime<T>(given: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { timeoutMs = 45_000, sleep = byTimer } = this.#options;
    try {
      return await inTime(timeoutMs, sleep, (late) => work(given ? AbortSignal.any([given, late]) : late));
    } catch (error) {
      if (error instanceof RelayProblem || error instanceof ForeignAnswer) throw error;
      throw new NoAnswer(`no answer from ${this.#base}: ${error instanceof Error ? error.message : ""}`, {
        cause: error,
      });
    }
  }

  /** @throws RelayProblem, and what the network throws */
  async #send(method: string, path: string, accept: string, asked: Asked, signal: AbortSignal): Promise<Streamed> {
    const { text, headers = {}, publishes = false } = asked;
    const { token, publishToken, fetch: own } = this.#options;
    const credential = publishes ? publishToken : token;
    const bearer = typeof credential === "function" ? await credential() : credential;
    const { createFetch, ofetch } = await import("ofetch");
    const answer: FetchResponse<ReadableStream<Uint8Array>> = await (own ? createFetch({ fetch: own }) : ofetch).raw(
      this.#base + path,
      {
        method,
        headers: Object.entries({
          accept,
          authorization: bearer && `Bearer ${bearer}`,
          "content-type": text === undefined ? undefined : "application/json",
          ...headers,
        }).filter((pair): pair is [string, string] => pair[1] !== undefined),
        body: text,
        signal,
        responseType: "stream",
        ignoreResponseError: true,
        redirect: "error",
        retry: 0,
      },
    );
    const { status, headers: got } = answer;
    const body = answer.body ?? undefined;
    if (answer.ok) return { status, headers: got, body };
    throw new RelayProblem(status, this.#parsed(await this.#textOf(body)), got.get("retry-after"));
  }

  async #textOf(body: AsyncIterable<Uint8Array> | undefined): Promise<string> {
    const decoder = new TextDecoder();
    let text = "";
    let length = 0;
    for await (const part of body ?? []) {
      length += part.length;
      if (length > LONGEST) throw new ForeignAnswer(`${this.#base} answers more than a relay does`);
      text += decoder.decode(part, { stream: true });
    }
    return text + decoder.decode();
  }

  #parse(text: string): unknown {
    return (this.#options.parse ?? JSON.parse)(text);
  }

  #parsed(text: string): unknown {
    try {
      return this.#parse(text);
    } catch {
      return undefined;
    }
  }

  #foreign(): ForeignAnswer {
    return new ForeignAnswer(`${this.#base} answers, but it is no relay`);
  }
}

interface Streamed {
  readonly status: number;
  readonly headers: Headers;
  readonly body: ReadableStream<Uint8Array> | undefined;
}

type Sleep = NonNullable<ClientOptions["sleep"]>;

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

function byTimer(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
