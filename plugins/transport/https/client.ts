/** One HTTP/1.1 connection: undici's own client over a guarded socket, used by one exchange at a time. */
import type { Socket } from "node:net";
import type { Client } from "undici";
import { ConnectError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Connect } from "../../../core/ports/plugin.ts";
import type { Place, PooledConnection } from "./pool.ts";
import { ResponseBytes } from "./response-bytes.ts";

/** What is offered by ALPN, the one that is preferred first. */
const BOTH = ["h2", "http/1.1"];

export interface ClientOptions {
  readonly Client: typeof Client;
  readonly clock: Clock;
  readonly connect: Connect;
  /** Whether HTTP/2 is offered. */
  readonly http2: boolean;
  readonly keepAliveMs: number;
}

/** @param opened called with each socket; returns true when it took the socket over, because that speaks HTTP/2 */
export function makeConnection(
  options: ClientOptions,
  place: Place,
  opened: (connection: PooledConnection, socket: Socket) => boolean,
): PooledConnection {
  const { Client, clock, connect, http2, keepAliveMs } = options;
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
      if (signal === undefined) return connected(new ConnectError("reset", "the connection was closed at once"), null);
      connect({ hostname, port, identity, ...(http2 && { alpn: BOTH }) }, signal).then(
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
          if (opened(connection, socket)) return connected(new ConnectError("reset", "it speaks HTTP/2"), null);
          watchBytes(socket, connection);
          connected(null, socket);
        },
        (error: Error) => connected(error, null),
      );
    },
  });
  const bytes = new ResponseBytes();
  const connection: PooledConnection = { client, place, openedAt: 0, reused: false, user: undefined, bytes };
  return connection;
}

/**
 * Checks the response's bounds before undici's parser, which takes its input from `read`. Nothing else sees every byte:
 * the parser has no callback for chunk extensions and trailers.
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
