/** Where requests go: an origin, as the subscriptions of one API key reach it, with the connections that are kept for it. */
import type { ClientCertificate } from "../../../core/model/credentials.ts";
import type { TlsIdentity } from "../../../core/ports/plugin.ts";
import type { PooledConnection } from "./client.ts";
import type { Excess } from "./response-bytes.ts";
import type { H2Session } from "./session.ts";

/** Where a request goes, for which subscription of which key, with which client certificate. */
export interface Aim {
  readonly keyId: string;
  readonly subscriptionId: string;
  readonly url: string;
  readonly certificate: ClientCertificate | undefined;
}

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

export class Place {
  /** Its name among all places. */
  readonly name: string;
  readonly origin: string;
  /** Host, with its port where the URL names one. */
  readonly authority: string;
  readonly hostname: string;
  readonly port: number;
  readonly identity: TlsIdentity | undefined;
  /** The subscriptions whose requests go there now. */
  readonly subscriptions = new Set<string>();
  readonly idle: PooledConnection[] = [];
  busy = 0;
  /** Those that take new requests. */
  readonly sessions: H2Session[] = [];
  /** Connections and sessions that are being opened, and may serve all that wait. */
  readonly opening = new Set<PooledConnection | H2Session>();
  #waiting: ConnectionUser[] = [];

  constructor(name: string, { origin, host, hostname, port }: URL, identity: TlsIdentity | undefined) {
    this.name = name;
    this.origin = origin;
    this.authority = host;
    this.hostname = hostname;
    this.port = port === "" ? 443 : Number(port);
    this.identity = identity;
  }

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
  opened(one: PooledConnection | H2Session, failed: boolean): void {
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

/**
 * Returns the name of the place that a request uses. Subscriptions of one key share it; one with a client certificate of
 * its own has a place of its own, because that is shown once for each connection.
 */
export const placeName = ({ keyId, subscriptionId, certificate }: Aim, origin: string): string =>
  certificate === undefined ? `key ${keyId} ${origin}` : `subscription ${subscriptionId} ${origin}`;

/** The identity of each certificate: one object, because the guard keeps its context and its sessions by the object. */
const identities = new WeakMap<
  ClientCertificate,
  { readonly host: TlsIdentity | undefined; readonly identity: TlsIdentity }
>();

/** Returns what a connection proves itself with: a certificate of the subscription goes before one of the host. */
export function identityOf(
  host: TlsIdentity | undefined,
  certificate: ClientCertificate | undefined,
): TlsIdentity | undefined {
  if (certificate === undefined) return host;
  const known = identities.get(certificate);
  if (known !== undefined && known.host === host) return known.identity;
  const identity = { ...host, ...certificate };
  identities.set(certificate, { host, identity });
  return identity;
}

export const sameCertificate = (a: ClientCertificate | undefined, b: ClientCertificate | undefined): boolean =>
  a === b || (a?.cert === b?.cert && a?.key === b?.key);
