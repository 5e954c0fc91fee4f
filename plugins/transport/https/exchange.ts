/** One request and its reply. It implements undici's DispatchHandler, the abort listener and the deadline itself. */
import type { Dispatcher } from "undici";
import type { Oauth2 } from "../../../core/model/credentials.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import type { Connections } from "./connections.ts";
import type { Deadlines, Timed } from "./deadlines.ts";
import { failure, tooLong, unknownStatus } from "./failure.ts";
import type { ConnectionUser, PooledConnection } from "./place.ts";
import { BODY_BYTES, type Excess } from "./response-bytes.ts";
import { H2Session } from "./session.ts";
import type { SessionStream, StreamUser } from "./session-stream.ts";
import type { Token, Tokens } from "./tokens.ts";

const KEPT_BYTES = 4_096;
/** Most connections opened for one request, when they are closed before a byte of it is written. */
const MOST_DIALS = 3;

const EMPTY = new Uint8Array(0);

/** The parts that all exchanges share. */
export interface Shared {
  readonly connections: Connections;
  readonly deadlines: Deadlines;
  /** Access tokens of subscriptions with OAuth 2. */
  readonly tokens: Tokens;
}

type Controller = Dispatcher.DispatchController;
type Headers = Readonly<Record<string, string | string[] | undefined>>;

export class Exchange implements Dispatcher.DispatchHandler, Timed, ConnectionUser, StreamUser, EventListenerObject {
  endsAt = 0;
  path = "";
  readonly #request: TransportRequest;
  readonly #signal: AbortSignal;
  readonly #shared: Shared;
  readonly #keptBytes: number;
  readonly #done = Promise.withResolvers<Reply>();
  #connection: PooledConnection | undefined;
  /** In place of a connection, where the receiver speaks HTTP/2. */
  #stream: SessionStream | undefined;
  #dial: AbortController | undefined;
  #dials = 0;
  #settled = false;
  #token: string | undefined;
  #written = false;
  #status = 0;
  #retryAfter: string | undefined;
  #control: string | undefined;
  #read = 0;
  #kept: Uint8Array = EMPTY;

  /** @param keptBytes bytes of the body that are kept */
  constructor(request: TransportRequest, signal: AbortSignal, shared: Shared, keptBytes = KEPT_BYTES) {
    this.#request = request;
    this.#signal = signal;
    this.#shared = shared;
    this.#keptBytes = keptBytes;
  }

  start(): Promise<Reply> {
    this.#shared.deadlines.add(this, this.#request.timeoutMs);
    this.#signal.addEventListener("abort", this);
    const oauth2 = this.#request.credentials?.oauth2;
    if (oauth2 === undefined) this.#dispatch(false);
    else this.#authorize(oauth2);
    return this.#done.promise;
  }

  /** Gets the access token, within the attempt's deadline, then sends the request with it. */
  #authorize(oauth2: Oauth2): void {
    const use = (token: Token): void => {
      if (this.#settled) return;
      if (typeof token !== "string") return this.#end(token);
      this.#token = token;
      this.#dispatch(false);
    };
    const token = this.#shared.tokens.take(this.#request, oauth2);
    if (token instanceof Promise) token.then(use, (error: unknown) => this.#end(undefined, error));
    else use(token);
  }

  dialling(): AbortSignal | undefined {
    this.#dials += 1;
    if (this.#dials > MOST_DIALS) return undefined;
    this.#dial ??= new AbortController();
    return this.#dial.signal;
  }

  #dispatch(fresh: boolean): void {
    const { keyId, subscriptionId, url, body, credentials } = this.#request;
    const aim = { keyId, subscriptionId, url, certificate: credentials?.clientCertificate };
    let connection: PooledConnection | H2Session | undefined;
    try {
      connection = this.#shared.connections.take(aim, this, fresh);
    } catch (error) {
      return this.#end(undefined, error);
    }
    if (connection === undefined) return;
    if (connection instanceof H2Session) return this.moved(connection);
    this.#connection = connection;
    try {
      const { path } = this;
      connection.client.dispatch({ method: "POST", path, headers: this.#headers(), body }, this);
    } catch (error) {
      this.#end(failure(error as Error), error);
    }
  }

  proceed(fresh: boolean): void {
    if (this.#settled) return;
    // A process that was stopped meanwhile gets its timers after its sockets: see `PooledConnection`.
    if (this.#shared.deadlines.now() >= this.endsAt) this.expire();
    else this.#dispatch(fresh);
  }

  moved(session: H2Session): void {
    this.#connection = undefined;
    try {
      this.#stream = session.send(this.path, this.#headers(), this.#request.body, this);
      this.#written = true;
    } catch (error) {
      this.#end(failure(error as Error), error);
    }
  }

  #headers(): Readonly<Record<string, string>> {
    const { headers } = this.#request;
    return this.#token === undefined ? headers : { ...headers, Authorization: `Bearer ${this.#token}` };
  }

  onRequestStart(): void {
    this.#written = true;
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    // 103 Early Hints and the like are not the answer yet.
    if (status >= 200) this.responded(status, headers);
  }

  onResponseData(_controller: Controller, chunk: Uint8Array): void {
    this.received(chunk);
  }

  onResponseEnd(): void {
    if (this.#settled) return;
    if (this.#connection !== undefined) this.#shared.connections.give(this.#connection);
    this.#connection = undefined;
    this.completed();
  }

  onResponseError(_controller: Controller, error: Error): void {
    const connection = this.#connection;
    // Without a connection, it is that of one which was left for a session.
    if (this.#settled || connection === undefined) return;
    // A kept connection broke before a byte was written to it: this request has not been sent yet.
    if (connection.reused && !this.#written && this.#dial === undefined) {
      this.#shared.connections.drop(connection);
      return this.#dispatch(true);
    }
    this.failed(error, false);
  }

  responded(status: number, headers: Headers): void {
    this.#status = status;
    const { "retry-after": after, "webhook-delivery": control } = headers;
    this.#retryAfter = Array.isArray(after) ? after[0] : after;
    this.#control = Array.isArray(control) ? control[0] : control;
  }

  received(chunk: Uint8Array): void {
    if (this.#settled) return;
    this.#read += chunk.length;
    const room = this.#keptBytes - this.#kept.length;
    // Copied, so that 4 KiB do not keep the whole buffer of the socket alive.
    if (room > 0) this.#kept = Buffer.concat([this.#kept, chunk.subarray(0, room)]);
    if (this.#read > BODY_BYTES) this.#end(this.#response(true));
  }

  completed(): void {
    this.#end(this.#response(this.#read > this.#keptBytes));
  }

  failed(error: Error, unsent: boolean): void {
    if (this.#settled) return;
    // The status is the answer: the rest of the body changes nothing.
    if (this.#status !== 0) return this.#end(this.#response(true));
    if (unsent) {
      this.#stream = undefined;
      this.#written = false;
      return this.#dispatch(true);
    }
    this.#end(failure(error), error);
  }

  exceeded(excess: Excess): void {
    if (this.#status !== 0) return this.#end(this.#response(true));
    this.#end(tooLong(excess));
  }

  expire(): void {
    if (this.#status !== 0) return this.#end(this.#response(true));
    const token = this.#request.credentials?.oauth2 === undefined || this.#token !== undefined;
    const missing = token ? "no connection" : "no access token";
    const what = this.#written ? "no complete response headers" : missing;
    const detail = `${what} within ${this.#request.timeoutMs} ms`;
    this.#end({ kind: "error", error: "timeout", detail });
  }

  /** The caller aborts it. */
  handleEvent(): void {
    this.#end(undefined, this.#signal.reason);
  }

  #response(truncated: boolean): Reply {
    const token = this.#token;
    if (token !== undefined) this.#shared.tokens.answered(this.#request.subscriptionId, token, this.#status);
    const odd = unknownStatus(this.#status);
    if (odd !== undefined) return odd;
    return {
      kind: "response",
      status: this.#status,
      retryAfter: this.#retryAfter,
      ...(this.#control !== undefined && { control: this.#control }),
      excerpt: this.#kept,
      truncated,
      ...(token !== undefined && { hidden: [token] }),
    };
  }

  /** Ends it once: with a reply, or with the reason why there is none. Closes a connection that is still held. */
  #end(reply: Reply | undefined, reason?: unknown): void {
    if (this.#settled) return;
    this.#settled = true;
    const { deadlines, connections } = this.#shared;
    deadlines.remove(this, this.#request.timeoutMs);
    this.#signal.removeEventListener("abort", this);
    if (this.#connection !== undefined) {
      this.#dial?.abort();
      connections.drop(this.#connection);
      this.#connection = undefined;
    }
    this.#stream?.cut();
    if (reply === undefined) this.#done.reject(reason);
    else this.#done.resolve(reply);
  }
}
