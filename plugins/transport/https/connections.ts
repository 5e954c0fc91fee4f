/**
 * Keeps connections by API key and origin: HTTP/1.1 connections, used by one exchange at a time, and HTTP/2 sessions,
 * used by many, where the receiver offers that. Where one may speak HTTP/2, exchanges of a place wait for the connection
 * that is being opened: it may serve all of them. Where it speaks HTTP/1 alone, each dials for itself at once.
 */
import type { connect as connectHttp2 } from "node:http2";
import type { Socket } from "node:net";
import { setNewest } from "../../../core/lib/bounded-map.ts";
import type { ClientCertificate } from "../../../core/model/credentials.ts";
import type { TlsIdentity } from "../../../core/ports/plugin.ts";
import { Place, PooledConnection, type ClientOptions, type ConnectionUser } from "./place.ts";
import { H2Session, type SessionOwner } from "./session.ts";
import { identityOf, placeName, sameCertificate, type Aim } from "./target.ts";

interface ConnectionOptions extends ClientOptions {
  readonly connectHttp2: typeof connectHttp2;
  readonly hosts: ReadonlyMap<string, TlsIdentity>;
  readonly maxIdle: number;
  readonly maxAgeMs: number;
}

/** Where one subscription's requests go now. */
interface Route {
  readonly place: Place;
  /** The subscription's own client certificate, which the place's identity holds. */
  readonly certificate: ClientCertificate | undefined;
  /** The last URL and the path in it: parsing one costs as much as sending it. */
  url: string;
  path: string;
}

/** Most origins whose protocol is remembered. */
const KNOWN = 10_000;

export class Connections implements SessionOwner<Place> {
  readonly #options: ConnectionOptions;
  /** By name. */
  readonly #places = new Map<string, Place>();
  /** By subscription: those of the places above. */
  readonly #routes = new Map<string, Route>();
  readonly #all = new Set<PooledConnection>();
  readonly #sessions = new Set<H2Session<Place>>();
  /** Idle connections and sessions, the one idle for longest first. */
  readonly #idle = new Set<PooledConnection | H2Session<Place>>();
  /** By origin: true when it chose HTTP/2 on its last new connection. */
  readonly #http2 = new Map<string, boolean>();
  #disposed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /**
   * Returns a connection for one exchange, kept or new (it is dialled when it is used), or a session; `undefined`: the
   * user waits, because a connection that may become a session for all of them is being dialled.
   * @param fresh a new connection, whatever is kept or dialled
   */
  take(aim: Aim, user: ConnectionUser, fresh = false): PooledConnection | H2Session<Place> | undefined {
    if (this.#disposed) throw new Error("the https transport was closed");
    const { place, path } = this.#route(aim);
    user.path = path;
    // From here on, so that the place does not count as empty while its old connections are closed.
    place.busy += 1;
    const kept = fresh ? undefined : this.#kept(place);
    if (kept instanceof H2Session || (kept === undefined && !fresh && place.wait(user))) {
      place.busy -= 1;
      return kept;
    }
    const connection = kept ?? this.#make(place);
    connection.user = user;
    connection.bytes.reset();
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
    place.opened(connection, true);
  }

  /** Forgets a subscription's places, and closes connections that no other uses, busy ones when given back. */
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
    for (const kept of [this.#all, this.#idle, this.#places, this.#routes]) kept.clear();
    const closing = [
      ...connections.map(({ client }) => client.destroy()),
      ...sessions.map((session) => session.close()),
    ];
    for (const { place } of connections) place.release(true);
    await Promise.all(closing);
  }

  /** The receiver has said how many requests the session takes at once. */
  ready(session: H2Session<Place>): void {
    session.place.opened(session, false);
  }

  /** The session carries a request again. */
  busy(session: H2Session<Place>): void {
    this.#idle.delete(session);
    this.#options.deadlines.remove(session, this.#options.keepAliveMs);
  }

  idle(session: H2Session<Place>): void {
    this.#options.deadlines.add(session, this.#options.keepAliveMs);
    this.#rest(session);
  }

  retired(session: H2Session<Place>): void {
    const { place } = session;
    place.sessions.splice(place.sessions.indexOf(session), 1);
    this.busy(session);
    this.#leave(place);
    place.opened(session, true);
  }

  closed(session: H2Session<Place>): void {
    this.#sessions.delete(session);
  }

  #route(aim: Aim): Route {
    const { subscriptionId, url, certificate } = aim;
    const known = this.#routes.get(subscriptionId);
    const same = known !== undefined && sameCertificate(known.certificate, certificate);
    if (same && known.url === url) return known;
    const parsed = new URL(url);
    const path = parsed.pathname + parsed.search;
    if (same && known.place.origin === parsed.origin) return Object.assign(known, { url, path });
    this.forget(subscriptionId);
    const name = placeName(aim, parsed.origin);
    const identity = identityOf(this.#options.hosts.get(parsed.hostname), certificate);
    const place = this.#places.get(name) ?? new Place(name, parsed, identity);
    this.#places.set(name, place);
    place.subscriptions.add(subscriptionId);
    const route: Route = { place, certificate, url, path };
    this.#routes.set(subscriptionId, route);
    return route;
  }

  /** False when the subscriptions of a place have another origin, or none, by now. */
  #stands(place: Place): boolean {
    return this.#places.get(place.name) === place;
  }

  /** Forgets a place without connections. */
  #leave(place: Place): void {
    if (!place.unused || !this.#stands(place)) return;
    this.#places.delete(place.name);
    for (const subscriptionId of place.subscriptions) this.#routes.delete(subscriptionId);
  }

  /** Adds an idle one, and closes the one idle for longest when there are too many. */
  #rest(added: PooledConnection | H2Session<Place>): void {
    this.#idle.add(added);
    if (this.#idle.size <= this.#options.maxIdle) return;
    const [oldest] = this.#idle;
    if (oldest instanceof H2Session) oldest.retire();
    else if (oldest !== undefined) this.drop(oldest);
  }

  /** Returns a session that takes one more request, or the connection that was used last; closes what is too old. */
  #kept(place: Place): PooledConnection | H2Session<Place> | undefined {
    const oldest = this.#options.deadlines.now() - this.#options.maxAgeMs;
    if (place.sessions.length > 0) {
      for (const session of [...place.sessions]) if (session.openedAt < oldest) session.retire();
      const roomy = place.sessions.find(({ room }) => room);
      if (roomy !== undefined) return roomy;
    }
    for (let last = place.idle.at(-1); last !== undefined; last = place.idle.at(-1)) {
      if (last.openedAt < oldest) {
        this.drop(last);
        continue;
      }
      place.idle.pop();
      this.#idle.delete(last);
      return last;
    }
    return undefined;
  }

  #make(place: Place): PooledConnection {
    const connection = new PooledConnection(this.#options, place, (of, socket) => this.#opened(of, socket));
    connection.client.on("disconnect", () => {
      if (this.#idle.has(connection)) this.drop(connection);
    });
    this.#all.add(connection);
    if (this.#options.http2 && this.#http2.get(place.origin) !== false) place.opening.add(connection);
    return connection;
  }

  /** Learns which protocol the receiver has chosen. Returns true when the socket is a session's from now on. */
  #opened(connection: PooledConnection, socket: Socket & { readonly alpnProtocol?: string | false | null }): boolean {
    const { place, user } = connection;
    const http2 = socket.alpnProtocol === "h2";
    if (this.#options.http2) setNewest(this.#http2, place.origin, http2, KNOWN);
    if (!http2 || user === undefined) {
      place.opened(connection, false);
      return false;
    }
    const session = new H2Session(this.#options.connectHttp2, socket, place, connection.openedAt, this);
    this.#sessions.add(session);
    place.sessions.push(session);
    // Those that wait go on when the receiver has said how many requests it takes at once.
    if (place.opening.delete(connection)) place.opening.add(session);
    user.moved(session);
    // Its client ends the exchange that it has, which is the session's by now.
    this.drop(connection);
    if (!session.carries) this.idle(session);
    if (!this.#stands(place)) session.retire();
    return true;
  }
}
