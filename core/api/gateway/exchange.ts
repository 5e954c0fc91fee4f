/** One request to the upstream and its answer over undici's dispatcher: the head first, then the body as it arrives. */
import { Readable, type Writable } from "node:stream";
import type { Dispatcher } from "undici";

export interface UpstreamRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly string[];
  /** A stream, or all of it. */
  readonly body?: Readable | Uint8Array;
}

export interface UpstreamHead {
  readonly status: number;
  /** Names and values by turns. */
  readonly headers: readonly string[];
}

/** Longest body of a replaced answer that is still read to its end, so that the connection can be kept. */
const DRAINED = 65_536;

export class UpstreamExchange implements Dispatcher.DispatchHandler {
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

  /** Ends the exchange at whatever point it is. */
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
