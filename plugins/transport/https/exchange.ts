/**
 * One request and its reply. It implements undici's DispatchHandler, the abort target and the deadline itself, to save
 * allocations.
 */
import type { Dispatcher } from "undici";
import type { Link } from "../../../core/model/linked-list.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import type { AbortTarget, AbortListeners } from "./abort-listeners.ts";
import type { PooledConnection, Connections, ConnectionUser } from "./connections.ts";
import type { Deadlines, Timed } from "./deadlines.ts";
import { failure, protocol } from "./failure.ts";
import { BODY_BYTES, type Excess } from "./response-bytes.ts";

/** Bytes of the body that are kept. */
const KEPT_BYTES = 4_096;
/** Most connections opened for one request, when they are closed before a byte of it is written. */
const MOST_DIALS = 3;

const EXCEEDED: Readonly<Record<Excess, string>> = {
  bytes: "the response headers do not end",
  informational: "more than 10 informational answers came before the response",
};

const EMPTY = new Uint8Array(0);

type Controller = Dispatcher.DispatchController;
type Headers = Readonly<Record<string, string | string[] | undefined>>;

export class Exchange implements Dispatcher.DispatchHandler, Timed, ConnectionUser, AbortTarget {
  endsAt = 0;
  readonly #request: TransportRequest;
  readonly #signal: AbortSignal;
  readonly #connections: Connections;
  readonly #deadlines: Deadlines;
  readonly #callings: AbortListeners;
  readonly #done = Promise.withResolvers<Reply>();
  #deadline: Link<Timed> | undefined;
  #calling: Link<AbortTarget> | undefined;
  #connection: PooledConnection | undefined;
  #dial: AbortController | undefined;
  #dials = 0;
  #settled = false;
  #written = false;
  #status = 0;
  #retryAfter: string | undefined;
  #read = 0;
  #kept: Uint8Array = EMPTY;

  constructor(
    request: TransportRequest,
    signal: AbortSignal,
    connections: Connections,
    deadlines: Deadlines,
    callings: AbortListeners,
  ) {
    this.#request = request;
    this.#signal = signal;
    this.#connections = connections;
    this.#deadlines = deadlines;
    this.#callings = callings;
  }

  start(): Promise<Reply> {
    this.#deadline = this.#deadlines.add(this, this.#request.timeoutMs);
    this.#calling = this.#callings.add(this.#signal, this);
    this.#dispatch(false);
    return this.#done.promise;
  }

  dialling(): AbortSignal | undefined {
    this.#dials += 1;
    if (this.#dials > MOST_DIALS) return undefined;
    this.#dial ??= new AbortController();
    return this.#dial.signal;
  }

  #dispatch(fresh: boolean): void {
    const { subscriptionId, url, headers, body } = this.#request;
    let connection: PooledConnection;
    try {
      connection = this.#connections.take(subscriptionId, url, this, fresh);
    } catch (error) {
      return this.#end(undefined, error);
    }
    this.#connection = connection;
    try {
      connection.client.dispatch({ method: "POST", path: connection.place.path, headers, body }, this);
    } catch (error) {
      this.#end(failure(error as Error), error);
    }
  }

  onRequestStart(): void {
    this.#written = true;
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    // 103 Early Hints and the like are not the answer yet.
    if (status < 200) return;
    this.#status = status;
    const after = headers["retry-after"];
    this.#retryAfter = Array.isArray(after) ? after[0] : after;
  }

  onResponseData(_controller: Controller, chunk: Uint8Array): void {
    if (this.#settled) return;
    this.#read += chunk.length;
    const room = KEPT_BYTES - this.#kept.length;
    // Copied, so that 4 KiB do not keep the whole buffer of the socket alive.
    if (room > 0) this.#kept = Buffer.concat([this.#kept, chunk.subarray(0, room)]);
    if (this.#read > BODY_BYTES) this.#end(this.#response(true));
  }

  onResponseEnd(): void {
    if (this.#settled) return;
    if (this.#connection !== undefined) this.#connections.give(this.#connection);
    this.#connection = undefined;
    this.#end(this.#response(this.#read > KEPT_BYTES));
  }

  onResponseError(_controller: Controller, error: Error): void {
    if (this.#settled) return;
    // The status is the answer: the rest of the body changes nothing.
    if (this.#status !== 0) return this.#end(this.#response(true));
    const connection = this.#connection;
    // A kept connection broke before a byte was written to it: this request has not been sent yet.
    if (connection?.reused && !this.#written && this.#dial === undefined) {
      this.#connections.drop(connection);
      return this.#dispatch(true);
    }
    this.#end(failure(error), error);
  }

  /** The response is longer than what is read of one. */
  exceeded(excess: Excess): void {
    if (this.#status !== 0) return this.#end(this.#response(true));
    this.#end(protocol(EXCEEDED[excess]));
  }

  /** The deadline has come. */
  expire(): void {
    if (this.#status !== 0) return this.#end(this.#response(true));
    const what = this.#written ? "no complete response headers" : "no connection";
    const detail = `${what} within ${this.#request.timeoutMs} ms`;
    this.#end({ kind: "error", error: "timeout", detail });
  }

  /** The caller aborts it. */
  callOff(): void {
    this.#end(undefined, this.#signal.reason);
  }

  #response(truncated: boolean): Reply {
    return {
      kind: "response",
      status: this.#status,
      retryAfter: this.#retryAfter,
      excerpt: this.#kept,
      truncated,
    };
  }

  /** Ends it once: with a reply, or with the reason why there is none. Closes a connection that is still held. */
  #end(reply: Reply | undefined, reason?: unknown): void {
    if (this.#settled) return;
    this.#settled = true;
    if (this.#deadline !== undefined) this.#deadlines.remove(this.#deadline, this.#request.timeoutMs);
    if (this.#calling !== undefined) this.#callings.remove(this.#signal, this.#calling);
    if (this.#connection !== undefined) {
      this.#dial?.abort();
      this.#connections.drop(this.#connection);
      this.#connection = undefined;
    }
    if (reply === undefined) this.#done.reject(reason);
    else this.#done.resolve(reply);
  }
}
