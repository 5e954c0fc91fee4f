/**
 * Keeps TLS sessions, so that a connection that is opened again pays a part of the handshake: the server proves that it
 * still holds the session, instead of sending its certificate once more.
 *
 * A session is kept only from a connection whose certificate was verified, under the name that it was verified for, and
 * no longer than an hour or that certificate's life. A server that does not know it gets a full handshake with full
 * verification.
 */
import type { TLSSocket } from "node:tls";
import type { Clock } from "../ports/clock.ts";

/** How long after a full handshake its sessions, and those that follow from them, are offered. */
const KEPT_MS = 3_600_000;
/** How long no session is kept for a server that failed with one. */
const REFUSED_MS = 600_000;
const MOST_SERVERS = 1_024;
/** Most sessions of one server: connections that open side by side need one each. */
const MOST_OF_ONE = 8;
/** Longest session: its ticket is text of the server's choice. Ordinary ones take 1 to 3 KiB. */
const LONGEST_BYTES = 6_144;
/** Most bytes of all sessions. */
const MOST_BYTES = 4 * 1_024 * 1_024;

/** A session that may be offered to its server. */
interface KeptSession {
  readonly session: Buffer;
  /** Monotonic ms from which it is not offered any more. */
  readonly until: number;
  /** TLS 1.3: each ticket serves one connection, so that nobody can link two by it (RFC 8446, C.4). */
  readonly once: boolean;
}

interface Server {
  readonly kept: KeptSession[];
  /** Monotonic ms until which it gets none, because a handshake that offered one failed. */
  refusedUntil: number;
}

export class TlsSessions {
  readonly #clock: Clock;
  /** By server, the one used longest ago first. */
  readonly #servers = new Map<string, Server>();
  #bytes = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  take(server: string): KeptSession | undefined {
    const known = this.#servers.get(server);
    if (known === undefined) return undefined;
    for (let newest = known.kept.at(-1); newest !== undefined; newest = known.kept.at(-1)) {
      if (newest.until > this.#clock.monotonic()) {
        if (newest.once) this.#removeNewest(known);
        return newest;
      }
      this.#removeNewest(known);
    }
    return undefined;
  }

  /**
   * Keeps the sessions that a verified connection is given.
   * @param offered the session that was offered to it
   */
  watch(server: string, socket: TLSSocket, offered: KeptSession | undefined): void {
    const until = this.#until(socket, offered);
    if (socket.getProtocol() !== "TLSv1.3") {
      // Before TLS 1.3 the session is part of the handshake.
      const session = socket.getSession();
      if (session !== undefined) this.#keep(server, { session, until, once: false });
      return;
    }
    let given = 0;
    const keep = (session: Buffer): void => {
      given += 1;
      if (given >= MOST_OF_ONE) socket.off("session", keep);
      this.#keep(server, { session, until, once: true });
    };
    socket.on("session", keep);
  }

  /** Forgets the server's sessions and keeps none for a while, because a handshake that offered one failed. */
  refuse(server: string): void {
    this.#forget(server);
    this.#add(server, { kept: [], refusedUntil: this.#clock.monotonic() + REFUSED_MS });
  }

  /** A resumed connection shows no certificate: what follows from it lasts as long as what it came from. */
  #until(socket: TLSSocket, offered: KeptSession | undefined): number {
    if (offered !== undefined && socket.isSessionReused()) return offered.until;
    const lifeMs = Date.parse(socket.getPeerCertificate().valid_to) - this.#clock.now();
    return this.#clock.monotonic() + Math.min(KEPT_MS, lifeMs);
  }

  #keep(server: string, kept: KeptSession): void {
    if (kept.session.length > LONGEST_BYTES) return;
    const known = this.#servers.get(server) ?? { kept: [], refusedUntil: 0 };
    if (known.refusedUntil > this.#clock.monotonic()) return;
    // A session of TLS 1.2 serves any number of connections, so one is enough.
    while (known.kept.length >= (kept.once ? MOST_OF_ONE : 1)) this.#bytes -= known.kept.shift()?.session.length ?? 0;
    known.kept.push(kept);
    this.#bytes += kept.session.length;
    this.#add(server, known);
  }

  /** Adds it as the newest, and drops the oldest while there are too many. */
  #add(server: string, known: Server): void {
    this.#servers.delete(server);
    this.#servers.set(server, known);
    while (this.#servers.size > MOST_SERVERS || this.#bytes > MOST_BYTES)
      this.#forget(this.#servers.keys().next().value as string);
  }

  #removeNewest(known: Server): void {
    this.#bytes -= known.kept.pop()?.session.length ?? 0;
  }

  #forget(server: string): void {
    for (const { session } of this.#servers.get(server)?.kept ?? []) this.#bytes -= session.length;
    this.#servers.delete(server);
  }
}
