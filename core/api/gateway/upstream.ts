/** Sends requests to the upstream over kept connections, with one deadline for each whole exchange: head first, then the body as it arrives. */
import { Readable, type Writable } from "node:stream";
import type { Dispatcher, Pool } from "undici";
import { openedLate } from "../../lib/opened-late.ts";
import { underDeadline } from "../../lib/within.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Connect } from "../../ports/plugin.ts";
import { withoutInformational } from "./informational.ts";

/** Requests under way at once, by default. */
export const CONCURRENCY = 128;

export interface UpstreamOptions {
  /** `http:` or `https:`; its path goes before that of each request. */
  readonly url: URL;
  /** The guarded connector. It opens this upstream only. */
  readonly connect: Connect;
  readonly clock: Clock;
  /** From the first byte sent to the last one passed on. @default 30_000 */
  readonly deadlineMs?: number;
  /** Requests under way at once. @default 128 */
  readonly concurrency?: number;
}

interface UpstreamRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly string[];
  /** A stream, or all of it. */
  readonly body?: Readable | Uint8Array;
}

interface UpstreamHead {
  readonly status: number;
  /** Names and values by turns. */
  readonly headers: readonly string[];
}

export interface Answering {
  readonly head: UpstreamHead;
  readonly exchange: UpstreamExchange;
}

const CONNECT_MS = 10_000;
/** undici's time-outs bound single waits. The deadline is ours; these are for a clock that was set back. */
const BELT_MS = 120_000;

const late = (ms: number): Error => new Error(`the upstream took longer than ${ms} ms`);

export class Upstream {
  readonly #options: UpstreamOptions;
  readonly #prefix: string;
  readonly #end = new AbortController();
  // undici is loaded at the first request.
  readonly #pool = openedLate(
    () => this.#open(),
    (pool) => pool.destroy(),
  );

  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.#prefix = options.url.pathname.replace(/\/+$/, "");
  }

  /**
   * Sends a request; resolves when the answer's head is there.
   * @param ended called once, when nothing of the request is left at the upstream
   * @throws whatever `signal` was aborted with or the connection failed with
   */
  async send(request: UpstreamRequest, signal: AbortSignal, ended: () => void): Promise<Answering> {
    const { clock, deadlineMs = 30_000 } = this.#options;
    const answering = Promise.withResolvers<Answering>();
    const sent = { ...request, path: this.#prefix + request.path };
    const run = (over: AbortSignal): Promise<void> => this.#exchange(sent, over, answering);
    underDeadline(clock, deadlineMs, late(deadlineMs), run, signal, this.#end.signal)
      .catch((error: Error) => answering.reject(error))
      .finally(ended);
    return await answering.promise;
  }

  async dispose(): Promise<void> {
    this.#end.abort(new Error("the gateway is closed"));
    await this.#pool.close();
  }

  async #open(): Promise<Pool> {
    const undici = await import("undici");
    return new undici.Pool(this.#options.url.origin, {
      connections: this.#options.concurrency ?? CONCURRENCY,
      pipelining: 1,
      allowH2: false,
      headersTimeout: BELT_MS,
      bodyTimeout: BELT_MS,
      connect: (_options, done) => {
        this.#dial().then(
          (socket) => done(null, withoutInformational(socket)),
          (error: Error) => done(error, null),
        );
      },
    });
  }

  #dial(): ReturnType<Connect> {
    const { url, clock, connect } = this.#options;
    const tls = url.protocol === "https:";
    const hostname = url.hostname.replace(/\.$/, "");
    const port = url.port === "" ? (tls ? 443 : 80) : Number(url.port);
    const dial = (signal: AbortSignal): ReturnType<Connect> => connect({ hostname, port, tls }, signal);
    return underDeadline(clock, CONNECT_MS, late(CONNECT_MS), dial, this.#end.signal);
  }

  /** Resolves when nothing of the request is left anywhere. `answering` may be settled more than once: the first counts. */
  async #exchange(
    request: UpstreamRequest,
    signal: AbortSignal,
    answering: PromiseWithResolvers<Answering>,
  ): Promise<void> {
    const pool = await this.#pool.use();
    for (let again = mayRepeat(request); ; again = false) {
      const exchange = new UpstreamExchange(pool, request);
      const abort = (): void => exchange.abort(signal.reason as Error);
      signal.addEventListener("abort", abort, { once: true });
      if (signal.aborted) abort();
      try {
        answering.resolve({ head: await exchange.head, exchange });
      } catch (error) {
        if (again && !signal.aborted && isStale(error)) continue;
        answering.reject(error as Error);
      } finally {
        await exchange.over;
        signal.removeEventListener("abort", abort);
      }
      return;
    }
  }
}

/** RFC 9110 §9.2.2: what changes nothing may be sent again. */
const mayRepeat = ({ method, body }: UpstreamRequest): boolean =>
  body === undefined && (method === "GET" || method === "HEAD");

/** True when the other side closed a kept connection just as it was used. */
const isStale = (error: unknown): boolean =>
  ["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"].includes((error as NodeJS.ErrnoException).code ?? "");

/** Longest body of a replaced answer that is still read to its end, so that the connection can be kept. */
const DRAINED = 65_536;

class UpstreamExchange implements Dispatcher.DispatchHandler {
  /** The answer's head. Rejects with what `abort` was given, or what the connection failed with. */
  readonly head: Promise<UpstreamHead>;
  /** Settles when undici is done with the request, long after an abort where it still waits for a connection. */
  readonly over: Promise<void>;
  readonly #head = Promise.withResolvers<UpstreamHead>();
  readonly #over = Promise.withResolvers<void>();
  /** Settles with the body: rejects when it was cut off. */
  readonly #body = Promise.withResolvers<void>();
  readonly #upload: Readable | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #aborted: Error | undefined;
  #sink: Writable | undefined;
  #dropped = 0;

  constructor(dispatcher: Dispatcher, { method, path, headers, body }: UpstreamRequest) {
    this.head = this.#head.promise;
    this.over = this.#over.promise;
    this.#upload = body instanceof Readable ? body : undefined;
    // Nobody awaits them when the exchange ends before: then a rejection must not count as unhandled.
    this.head.catch(() => undefined);
    this.#body.promise.catch(() => undefined);
    // A body on a method that needs none: a server that ignores it must not find it at the start of the next request.
    const reset = body !== undefined && method === "DELETE";
    const options = { method: method as Dispatcher.HttpMethod, path, headers: [...headers], body: body ?? null };
    try {
      dispatcher.dispatch(reset ? { ...options, reset } : options, this);
    } catch (error) {
      this.onResponseError(undefined, error as Error);
    }
  }

  /** Ends the exchange, wherever it is. */
  abort(reason: Error): void {
    this.#aborted ??= reason;
    this.#fail(this.#aborted);
    this.#controller?.abort(this.#aborted);
  }

  /** Lets the body flow into `sink`, no faster than that takes it; resolves when all of it has. @throws when it was cut off */
  pipe(sink: Writable): Promise<void> {
    this.#sink = sink;
    sink.on("drain", () => this.#controller?.resume());
    this.#controller?.resume();
    return this.#body.promise;
  }

  /** The body is not wanted. */
  drop(): void {
    this.#controller?.resume();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#aborted !== undefined) controller.abort(this.#aborted);
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (status < 200) return;
    controller.pause();
    this.#head.resolve({ status, headers: texts(controller.rawHeaders) });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#sink === undefined) {
      this.#dropped += chunk.length;
      if (this.#dropped > DRAINED) this.abort(new Error("the rest is not wanted"));
    } else if (!this.#sink.write(chunk)) controller.pause();
  }

  onResponseEnd(): void {
    this.#upload?.destroy();
    this.#body.resolve();
    this.#over.resolve();
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.#fail(this.#aborted ?? error);
    this.#over.resolve();
  }

  #fail(error: Error): void {
    this.#upload?.destroy();
    this.#head.reject(error);
    this.#body.reject(error);
  }
}

/** Headers as undici keeps them: names and values in turn, as bytes. */
function texts(raw: unknown): readonly string[] {
  if (!Array.isArray(raw)) return [];
  return raw.map((one: unknown) => (Buffer.isBuffer(one) ? one.toString("latin1") : String(one)));
}
