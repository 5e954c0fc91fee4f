/**
 * Keeps connections by API key and origin: HTTP/1.1 connections, used by one exchange at a time, and HTTP/2 sessions,
 * used by many, where the receiver offers that.
 */
import type { connect as connectHttp2 } from "node:http2";
import type { Socket } from "node:net";
import type { TlsIdentity } from "../../../core/ports/plugin.ts";
import { makeConnection, type ClientOptions } from "./client.ts";
import type { Deadlines } from "../deadlines.ts";
import { sameCertificate, targetOf, type Aim, type Target } from "./place.ts";
import type { ConnectionUser, Place, PooledConnection, OriginRoute } from "./pool.ts";
import { Protocols } from "./protocols.ts";
import { H2Session, type SessionOwner } from "./session.ts";

interface ConnectionOptions extends ClientOptions {
  readonly connectHttp2: typeof connectHttp2;
  readonly deadlines: Deadlines;
  /** What single hosts need in TLS. */
  readonly hosts: ReadonlyMap<string, TlsIdentity>;
  readonly maxIdle: number;
  readonly maxAgeMs: number;
}

export class Connections {
  readonly #options: ConnectionOptions;
  /** By name. */
  readonly #places = new Map<string, Place>();
  /** By subscription: those of the places above. */
  readonly #routes = new Map<string, OriginRoute>();
  readonly #all = new Set<PooledConnection>();
  readonly #sessions = new Map<H2Session, Place>();
  /** Idle connections and sessions, the one idle for longest first. */
  readonly #idle = new Set<PooledConnection | H2Session>();
  readonly #protocols: Protocols;
  #disposed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#protocols = new Protocols(options.clock, options.http2);
  }

  /**
   * Returns a connection for one exchange, kept or new (it is dialled when it is used), or a session; `undefined`: the
   * user waits, because a connection that may become a session for all of them is being dialled.
   * @param fresh a new connection, whatever is kept or dialled
   */
  take(aim: Aim, user: ConnectionUser, fresh = false): PooledConnection | H2Session | undefined {
    if (this.#disposed) throw new Error("the https transport was closed");
    const { place, path } = this.#route(aim);
    user.path = path;
    let connection = fresh ? undefined : (this.#roomy(place) ?? this.#kept(place));
    if (connection instanceof H2Session) return connection;
    if (connection === undefined && !fresh && this.#protocols.wait(place, user)) return undefined;
    connection ??= this.#make(place);
    connection.user = user;
    connection.bytes.reset();
    place.busy += 1;
    return connection;
  }

  /** Takes back a connection in good order. */
  give(connection: PooledConnection): void {
    const { place } = connection;
    if (!this.#stands(place)) return this.drop(connection);
    connection.user = undefined;
    connection.reused = true;
    place.busy -= 1;
    place.idle.push(connection);
    this.#rest(connection);
  }

  /** Closes a connection, whatever it is doing. */
  drop(connection: PooledConnection): void {
    if (!this.#all.delete(connection)) return;
    const { place, client } = connection;
    if (this.#idle.delete(connection)) place.idle.splice(place.idle.indexOf(connection), 1);
    else place.busy -= 1;
    connection.user = undefined;
    client.destroy(null, () => undefined);
    this.#leave(place);
    this.#protocols.opened(place, connection, true);
  }

  /**
   * Forgets where a subscription's requests go. Idle connections that no other subscription uses are closed; busy ones
   * are closed when they are given back.
   */
  forget(subscriptionId: string): void {
    const place = this.#routes.get(subscriptionId)?.place;
    this.#routes.delete(subscriptionId);
    if (place === undefined || !place.subscriptions.delete(subscriptionId) || place.subscriptions.size > 0) return;
    this.#places.delete(place.name);
    for (let last = place.idle.at(-1); last !== undefined; last = place.idle.at(-1)) this.drop(last);
    for (const session of [...place.sessions]) session.retire();
  }

  async dispose(): Promise<void> {
    this.#disposed = true;
    const connections = [...this.#all];
    const sessions = [...this.#sessions];
    this.#all.clear();
    this.#idle.clear();
    this.#places.clear();
    this.#routes.clear();
    const closing = [
      ...connections.map(({ client }) => client.destroy()),
      ...sessions.map(([session]) => session.close()),
    ];
    for (const { place } of connections) this.#protocols.release(place, true);
    await Promise.all(closing);
  }

  #route(aim: Aim): OriginRoute {
    const { subscriptionId, url, certificate } = aim;
    const known = this.#routes.get(subscriptionId);
    const same = known !== undefined && sameCertificate(known.certificate, certificate);
    if (same && known.url === url) return known;
    const parsed = new URL(url);
    const path = parsed.pathname + parsed.search;
    if (same && known.place.origin === parsed.origin) return Object.assign(known, { url, path });
    this.forget(subscriptionId);
    const place = this.#place(targetOf(aim, parsed, this.#options.hosts));
    place.subscriptions.add(subscriptionId);
    const route: OriginRoute = { place, certificate, url, path };
    this.#routes.set(subscriptionId, route);
    return route;
  }

  #place(target: Target): Place {
    const known = this.#places.get(target.name);
    if (known !== undefined) return known;
    const empty = { idle: [], busy: 0, sessions: [], opening: new Set<never>(), waiting: [] };
    const place: Place = { ...target, ...empty, subscriptions: new Set() };
    this.#places.set(target.name, place);
    return place;
  }

  /** False when the subscriptions of a place have another origin, or none, by now. */
  #stands(place: Place): boolean {
    return this.#places.get(place.name) === place;
  }

  /** Forgets a place without connections. */
  #leave(place: Place): void {
    const unused = place.busy === 0 && place.idle.length === 0 && place.sessions.length === 0;
    if (!unused || !this.#stands(place)) return;
    this.#places.delete(place.name);
    for (const subscriptionId of place.subscriptions) this.#routes.delete(subscriptionId);
  }

  /** Adds an idle one, and closes the one idle for longest when there are too many. */
  #rest(added: PooledConnection | H2Session): void {
    this.#idle.add(added);
    if (this.#idle.size <= this.#options.maxIdle) return;
    const [oldest] = this.#idle;
    if (oldest instanceof H2Session) oldest.retire();
    else if (oldest !== undefined) this.drop(oldest);
  }

  /** Returns a session that takes one more request and is not too old. */
  #roomy(place: Place): H2Session | undefined {
    if (place.sessions.length === 0) return undefined;
    const oldest = this.#options.clock.monotonic() - this.#options.maxAgeMs;
    // Busy for a moment, so that its place does not count as empty.
    place.busy += 1;
    for (const session of [...place.sessions]) if (session.openedAt < oldest) session.retire();
    place.busy -= 1;
    return place.sessions.find(({ room }) => room);
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
    const connection = makeConnection(this.#options, place, (of, socket) => this.#opened(of, socket));
    connection.client.on("disconnect", () => {
      if (this.#idle.has(connection)) this.drop(connection);
    });
    this.#all.add(connection);
    this.#protocols.opening(connection);
    return connection;
  }

  /** Learns which protocol the receiver has chosen. Returns true when the socket is a session's from now on. */
  #opened(connection: PooledConnection, socket: Socket & { readonly alpnProtocol?: string | false | null }): boolean {
    const { place, user } = connection;
    const http2 = socket.alpnProtocol === "h2";
    this.#protocols.chose(place.origin, http2);
    if (!http2 || user === undefined) {
      this.#protocols.opened(place, connection, false);
      return false;
    }
    const session = new H2Session(this.#options.connectHttp2, socket, place, connection.openedAt, this.#owner(place));
    this.#sessions.set(session, place);
    place.sessions.push(session);
    // Those that wait go on when the receiver has said how many requests it takes at once.
    if (place.opening.delete(connection)) place.opening.add(session);
    user.moved(session);
    // Its client ends the exchange that it has, which is the session's by now.
    this.drop(connection);
    if (!session.carries) this.#idles(session);
    if (!this.#stands(place)) session.retire();
    return true;
  }

  #owner(place: Place): SessionOwner {
    const { deadlines, keepAliveMs } = this.#options;
    const busy = (session: H2Session): void => {
      this.#idle.delete(session);
      deadlines.remove(session, keepAliveMs);
    };
    return {
      busy,
      idle: (session) => this.#idles(session),
      ready: (session) => this.#protocols.opened(place, session, false),
      retired: (session) => {
        place.sessions.splice(place.sessions.indexOf(session), 1);
        busy(session);
        this.#leave(place);
        this.#protocols.opened(place, session, true);
      },
      closed: (session) => this.#sessions.delete(session),
    };
  }

  #idles(session: H2Session): void {
    const { deadlines, keepAliveMs } = this.#options;
    deadlines.add(session, keepAliveMs);
    this.#rest(session);
  }
}
