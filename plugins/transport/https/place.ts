/** A place with the connections and sessions that are kept for it, and its users that wait for one. */
import type { Socket } from "node:net";
import type { Client } from "undici";
import { ConnectError } from "../../../core/model/errors.ts";
import type { Connect } from "../../../core/ports/plugin.ts";
import type { Deadlines } from "./deadlines.ts";
import { ResponseBytes, type Excess } from "./response-bytes.ts";
import type { H2Session } from "./session.ts";
import { Target } from "./target.ts";

export interface ConnectionUser {
  /** Path and query of its request, known from when it takes a connection. */
  path: string;
  /** Monotonic ms of the attempt's deadline. */
  readonly endsAt: number;
  /** Called when `endsAt` has come. */
  expire(): void;
  /** Called when the connection is dialled; the signal ends with the user. `undefined`: it has been dialled often enough. */
  dialling(): AbortSignal | undefined;
  /** Its connection speaks HTTP/2: the user sends over the session instead. */
  moved(session: H2Session): void;
  /**
   * It waited for a connection: now it asks for one again.
   * @param fresh for one of its own, because the one that it waited for failed
   */
  proceed(fresh: boolean): void;
  /** The response is longer than what is read of one; no more of it is passed on. */
  exceeded(excess: Excess): void;
}

export class Place extends Target {
  /** The subscriptions whose requests go there now. */
  readonly subscriptions = new Set<string>();
  readonly idle: PooledConnection[] = [];
  busy = 0;
  /** Those that take new requests. */
  readonly sessions: H2Session<Place>[] = [];
  /** Connections and sessions that are being opened, and may serve all that wait. */
  readonly opening = new Set<PooledConnection | H2Session<Place>>();
  #waiting: ConnectionUser[] = [];

  get unused(): boolean {
    return this.busy === 0 && this.idle.length === 0 && this.sessions.length === 0;
  }

  /** Returns true when the user waits: it goes on when the connection that is being opened is there, or failed. */
  wait(user: ConnectionUser): boolean {
    if (this.opening.size === 0) return false;
    this.#waiting.push(user);
    return true;
  }

  /** Notes that one is open, or failed. Does nothing the second time. */
  opened(one: PooledConnection | H2Session<Place>, failed: boolean): void {
    if (this.opening.delete(one)) this.release(failed);
  }

  /** Lets all that wait go on. */
  release(fresh: boolean): void {
    const all = this.#waiting;
    if (all.length === 0) return;
    this.#waiting = [];
    for (const user of all) user.proceed(fresh);
  }
}

/** Protocols that ALPN offers, the one that is preferred first. */
const BOTH = ["h2", "http/1.1"];

export interface ClientOptions {
  readonly Client: typeof Client;
  readonly deadlines: Deadlines;
  readonly connect: Connect;
  /** True: HTTP/2 is offered. */
  readonly http2: boolean;
  readonly keepAliveMs: number;
}

/** Called with each socket; returns true when it took the socket over, because that speaks HTTP/2. */
type Opened = (connection: PooledConnection, socket: Socket) => boolean;
type Connected = (error: Error | null, socket: Socket | null) => void;

/** One HTTP/1.1 connection: undici's own client over a guarded socket, used by one exchange at a time. */
export class PooledConnection {
  readonly client: Client;
  readonly place: Place;
  /** Monotonic ms at which its socket was opened. */
  openedAt = 0;
  /** True once it has carried a request. */
  reused = false;
  user: ConnectionUser | undefined;
  /** Counts the bytes of the current response. */
  readonly bytes = new ResponseBytes();

  constructor(options: ClientOptions, place: Place, opened: Opened) {
    const { Client, keepAliveMs } = options;
    this.place = place;
    this.client = new Client(place.origin, {
      pipelining: 1,
      allowH2: false,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      // Where a server states how long it keeps a connection, leave it 1 s earlier.
      keepAliveTimeoutThreshold: 1_000,
      // The attempt's own deadline ends it, by the monotonic clock. undici's would add a timer for each request, kept
      // for half a second: long enough for V8 to move it to the old generation.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: (_options, connected) => this.#dial(options, opened, connected as Connected),
    });
  }

  #dial({ connect, http2, deadlines }: ClientOptions, opened: Opened, connected: Connected): void {
    // undici dials again by itself when a connection was closed before anything was written to it.
    const signal = this.user?.dialling();
    if (signal === undefined) return connected(new ConnectError("reset", "the connection was closed at once"), null);
    const { hostname, port, identity } = this.place;
    connect({ hostname, port, identity, ...(http2 && { alpn: BOTH }) }, signal).then(
      (socket) => {
        this.openedAt = deadlines.now();
        // A process that was stopped meanwhile gets its timers after its sockets: an attempt past its deadline must
        // not be sent, because another node may hold the lease by now.
        if (this.openedAt >= (this.user?.endsAt ?? 0)) {
          socket.destroy();
          this.user?.expire();
          return connected(new ConnectError("timeout", "the connection was opened after the attempt's deadline"), null);
        }
        if (opened(this, socket)) return connected(new ConnectError("reset", "it speaks HTTP/2"), null);
        this.#watch(socket);
        connected(null, socket);
      },
      (error: Error) => connected(error, null),
    );
  }

  /** Checks a response's bounds before undici's parser, which sees no chunk extensions and trailers. */
  #watch(socket: Socket): void {
    const read = socket.read.bind(socket);
    socket.read = (size?: number): unknown => {
      for (;;) {
        const chunk = read(size) as Buffer | null;
        if (chunk === null || size === 0 || this.user === undefined) return chunk;
        const passed = this.bytes.take(chunk);
        if (typeof passed === "object") return passed;
        if (passed === undefined) continue;
        this.user.exceeded(passed);
        return null;
      }
    };
  }
}
