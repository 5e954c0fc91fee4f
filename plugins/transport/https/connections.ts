/**
 * Keeps connections by subscription and origin. One undici client is one connection, used by one exchange at a time.
 */
import type { Socket } from "node:net";
import type { Client } from "undici";
import { ConnectError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Connect, TlsIdentity } from "../../../core/ports/plugin.ts";
import { sameCertificate, targetOf, type Aim, type Target } from "./place.ts";
import { ResponseBytes, type Excess } from "./response-bytes.ts";

/** The user of a connection. */
export interface ConnectionUser {
  /** Monotonic ms of the attempt's deadline. */
  readonly endsAt: number;
  /** Called when `endsAt` has come. */
  expire(): void;
  /**
   * Called when the connection is dialled; the signal ends with the user. `undefined`: it has been dialled often
   * enough.
   */
  dialling(): AbortSignal | undefined;
  /** The response is longer than what is read of one; no more of it is passed on. */
  exceeded(excess: Excess): void;
}

export interface PooledConnection {
  readonly client: Client;
  readonly place: Place;
  /** Monotonic ms at which its socket was opened. */
  openedAt: number;
  /** Whether it has carried a request before. */
  reused: boolean;
  user: ConnectionUser | undefined;
  /** Counts the bytes of the current response. */
  readonly bytes: ResponseBytes;
}

/** Where one subscription's requests go now. */
interface Place extends Target {
  readonly idle: PooledConnection[];
  busy: number;
}

export interface ConnectionOptions {
  readonly Client: typeof Client;
  readonly clock: Clock;
  readonly connect: Connect;
  /** What single hosts need in TLS. */
  readonly hosts: ReadonlyMap<string, TlsIdentity>;
  readonly keepAliveMs: number;
  readonly maxIdle: number;
  readonly maxAgeMs: number;
}

export class Connections {
  readonly #options: ConnectionOptions;
  readonly #places = new Map<string, Place>();
  readonly #all = new Set<PooledConnection>();
  /** Idle connections, the one idle for longest first. */
  readonly #idle = new Set<PooledConnection>();
  #disposed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** Returns a connection for one exchange, kept or new (it is dialled when it is used). `fresh`: never a kept one. */
  take(aim: Aim, user: ConnectionUser, fresh = false): PooledConnection {
    if (this.#disposed) throw new Error("the https transport was closed");
    const place = this.#place(aim);
    const connection = (fresh ? undefined : this.#kept(place)) ?? this.#make(place);
    connection.user = user;
    connection.bytes.reset();
    place.busy += 1;
    return connection;
  }

  /** Takes back a connection in good order. */
  give(connection: PooledConnection): void {
    const { place } = connection;
    // The subscription has another origin, or none, by now.
    if (this.#places.get(place.subscriptionId) !== place) return this.drop(connection);
    connection.user = undefined;
    connection.reused = true;
    place.busy -= 1;
    place.idle.push(connection);
    this.#idle.add(connection);
    if (this.#idle.size <= this.#options.maxIdle) return;
    const [oldest] = this.#idle;
    if (oldest !== undefined) this.drop(oldest);
  }

  /** Closes a connection, whatever it is doing. */
  drop(connection: PooledConnection): void {
    if (!this.#all.delete(connection)) return;
    const { place, client } = connection;
    if (this.#idle.delete(connection)) place.idle.splice(place.idle.indexOf(connection), 1);
    else place.busy -= 1;
    connection.user = undefined;
    client.destroy(null, () => undefined);
    const unused = place.busy === 0 && place.idle.length === 0;
    if (unused && this.#places.get(place.subscriptionId) === place) this.#places.delete(place.subscriptionId);
  }

  /** Closes a subscription's idle connections; busy ones are closed when they are given back. */
  forget(subscriptionId: string): void {
    const place = this.#places.get(subscriptionId);
    if (place === undefined) return;
    this.#places.delete(subscriptionId);
    for (let last = place.idle.at(-1); last !== undefined; last = place.idle.at(-1)) this.drop(last);
  }

  async dispose(): Promise<void> {
    this.#disposed = true;
    const clients = [...this.#all].map(({ client }) => client);
    this.#all.clear();
    this.#idle.clear();
    this.#places.clear();
    await Promise.all(clients.map((client) => client.destroy()));
  }

  #place(aim: Aim): Place {
    const { subscriptionId, url } = aim;
    const known = this.#places.get(subscriptionId);
    const same = known !== undefined && sameCertificate(known.certificate, aim.certificate);
    if (same && known.url === url) return known;
    const target = targetOf(aim, this.#options.hosts);
    if (same && known.origin === target.origin) return Object.assign(known, { url, path: target.path });
    this.forget(subscriptionId);
    const place = { ...target, idle: [], busy: 0 };
    this.#places.set(subscriptionId, place);
    return place;
  }

  /** Returns the connection that was used last, unless it is too old. */
  #kept(place: Place): PooledConnection | undefined {
    const oldest = this.#options.clock.monotonic() - this.#options.maxAgeMs;
    for (;;) {
      const connection = place.idle.at(-1);
      if (connection === undefined) return undefined;
      if (connection.openedAt < oldest) {
        // Busy for a moment, so that its place does not count as empty.
        place.busy += 1;
        this.drop(connection);
        place.busy -= 1;
        continue;
      }
      place.idle.pop();
      this.#idle.delete(connection);
      return connection;
    }
  }

  #make(place: Place): PooledConnection {
    const { Client, clock, connect, keepAliveMs } = this.#options;
    const { hostname, port, identity } = place;
    const client = new Client(place.origin, {
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
      connect: (_options, connected) => {
        // undici dials again by itself when a connection was closed before anything was written to it.
        const signal = connection.user?.dialling();
        if (signal === undefined)
          return connected(new ConnectError("reset", "the connection was closed at once"), null);
        connect({ hostname, port, identity }, signal).then(
          (socket) => {
            connection.openedAt = clock.monotonic();
            // A process that was stopped meanwhile gets its timers after its sockets: an attempt past its deadline must
            // not be sent, because another node may hold the lease by now.
            if (connection.openedAt >= (connection.user?.endsAt ?? 0)) {
              socket.destroy();
              connection.user?.expire();
              return connected(
                new ConnectError("timeout", "the connection was opened after the attempt's deadline"),
                null,
              );
            }
            watchBytes(socket, connection);
            connected(null, socket);
          },
          (error: Error) => connected(error, null),
        );
      },
    });
    const bytes = new ResponseBytes();
    const connection: PooledConnection = { client, place, openedAt: 0, reused: false, user: undefined, bytes };
    client.on("disconnect", () => {
      if (this.#idle.has(connection)) this.drop(connection);
    });
    this.#all.add(connection);
    return connection;
  }
}

/**
 * Checks the response's bounds before undici's parser, which takes its input from `read`. Nothing else sees every byte:
 * the parser calls nobody for chunk extensions and trailers.
 */
function watchBytes(socket: Socket, connection: PooledConnection): void {
  const read = socket.read.bind(socket);
  socket.read = (size?: number): unknown => {
    for (;;) {
      const chunk = read(size) as Buffer | null;
      if (chunk === null || size === 0 || connection.user === undefined) return chunk;
      const passed = connection.bytes.take(chunk);
      if (typeof passed === "object") return passed;
      if (passed === undefined) continue;
      connection.user.exceeded(passed);
      return null;
    }
  };
}
