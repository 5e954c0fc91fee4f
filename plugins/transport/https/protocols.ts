/**
 * Remembers which protocol origins speak. Where one may speak HTTP/2, exchanges of a place wait for the connection
 * that is being opened: it may serve all of them. Where it speaks HTTP/1 alone, each dials for itself at once.
 */
import { setNewest } from "../../../core/lib/bounded-map.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { ConnectionUser, Place, PooledConnection } from "./pool.ts";
import type { H2Session } from "./session.ts";

/** Most origins that are remembered. */
const KNOWN = 10_000;

export class Protocols {
  readonly #clock: Clock;
  readonly #offered: boolean;
  /** Whether an origin chose HTTP/2 on its last new connection. */
  readonly #http2 = new Map<string, boolean>();

  /** @param offered whether HTTP/2 is offered at all */
  constructor(clock: Clock, offered: boolean) {
    this.#clock = clock;
    this.#offered = offered;
  }

  /** A connection is being dialled. */
  opening(connection: PooledConnection): void {
    const { place } = connection;
    if (this.#offered && this.#http2.get(place.origin) !== false) place.opening.add(connection);
  }

  /** The receiver has chosen. */
  chose(origin: string, http2: boolean): void {
    if (this.#offered) setNewest(this.#http2, origin, http2, KNOWN);
  }

  /** Returns true when the user waits: it is called when the connection that is being opened is there, or failed. */
  wait(place: Place, user: ConnectionUser): boolean {
    if (place.opening.size === 0) return false;
    place.waiting.push(user);
    return true;
  }

  /** It is open, or failed. Does nothing the second time. */
  opened(place: Place, one: PooledConnection | H2Session, failed: boolean): void {
    if (place.opening.delete(one)) this.release(place, failed);
  }

  /** Lets all that wait go on. */
  release(place: Place, fresh: boolean): void {
    const all = place.waiting;
    if (all.length === 0) return;
    place.waiting = [];
    for (const user of all) {
      // A process that was stopped meanwhile gets its timers after its sockets: see `makeConnection`.
      if (this.#clock.monotonic() >= user.endsAt) user.expire();
      else user.proceed(fresh);
    }
  }
}
