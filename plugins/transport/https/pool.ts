/** What the pool of connections keeps: places, their connections and sessions, and the users of those. */
import type { Client } from "undici";
import type { ClientCertificate } from "../../../core/model/credentials.ts";
import type { Target } from "./place.ts";
import type { Excess, ResponseBytes } from "./response-bytes.ts";
import type { H2Session } from "./session.ts";

/** The user of a connection. */
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

/** An HTTP/1.1 connection. */
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

/** An origin, as the subscriptions of one API key reach it. */
export interface Place extends Target {
  /** The subscriptions whose requests go there now. */
  readonly subscriptions: Set<string>;
  readonly idle: PooledConnection[];
  busy: number;
  /** Those that take new requests. */
  readonly sessions: H2Session[];
  /** Connections and sessions that are being opened, and may serve all that wait. */
  readonly opening: Set<PooledConnection | H2Session>;
  waiting: ConnectionUser[];
}

/** Where one subscription's requests go now. */
export interface OriginRoute {
  readonly place: Place;
  /** The subscription's own client certificate, which the place's identity holds. */
  readonly certificate: ClientCertificate | undefined;
  /** The last URL and the path in it: parsing one costs as much as sending it. */
  url: string;
  path: string;
}
