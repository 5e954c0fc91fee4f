/** Stores sessions: a login begins one, a logout ends it on every node, since each request reads it. */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { randomId } from "../../../core/model/ids.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { ScopedStorage } from "../../../core/ports/plugin.ts";
import type { Change } from "../../../core/ports/storage.ts";
import { everyEntry } from "./stored.ts";
import type { User } from "./user.ts";

export interface LoginSession {
  readonly id: string;
  readonly uid: string;
  readonly username: string;
  /** Hash of the secret in the refresh cookie. */
  readonly secret: string;
  readonly amr: readonly string[];
  /** Epoch ms of the last real authentication. */
  readonly authAt: number;
  readonly expiresAt: number;
}

const ID = /^ses_[0-9a-z]{26}$/;
/** Most that are removed in one commit. */
const COMMITTED = 500;
const TIDY_MS = 600_000;
/** How far the clock of the node that authenticated somebody may be ahead of this one, ms. */
export const AHEAD_MS = 300_000;

const sessionKey = (id: string): string => `session:${id}`;
/** Of a hash in base64url. */
const SECRET_LENGTH = 43;
const secretHash = (secret: string): string => hash("sha256", secret, "base64url");

/** Returns `undefined` for a damaged record: its session has ended. */
function parse(text: string): LoginSession | undefined {
  try {
    const read = JSON.parse(text) as Partial<LoginSession> | null;
    const { id, uid, username, secret, amr, authAt, expiresAt } = read ?? {};
    const texts = [id, uid, username, secret].every((one) => typeof one === "string");
    const whole = texts && secret?.length === SECRET_LENGTH && Array.isArray(amr);
    return whole && [authAt, expiresAt].every(Number.isFinite) ? (read as LoginSession) : undefined;
  } catch {
    return undefined;
  }
}

export class Sessions {
  readonly #storage: ScopedStorage;
  readonly #clock: Clock;
  readonly #lastMs: number;
  #tidiedAt = Number.NEGATIVE_INFINITY;

  /** @param lastMs how long a session lasts */
  constructor(storage: ScopedStorage, clock: Clock, lastMs: number) {
    this.#storage = storage;
    this.#clock = clock;
    this.#lastMs = lastMs;
  }

  /** Returns a new session with the value of its cookie, and the change that stores it. */
  begin({ uid, username }: User, amr: readonly string[]) {
    const secret = randomBytes(32).toString("base64url");
    const [now, id] = [this.#clock.now(), randomId("ses")];
    const expiresAt = now + this.#lastMs;
    const session: LoginSession = { id, uid, username, secret: secretHash(secret), amr, authAt: now, expiresAt };
    const change: Change = { op: "put", key: sessionKey(id), value: JSON.stringify(session), if: null };
    return { session, cookie: `${id}.${secret}`, change };
  }

  /** Returns the session while it lasts. One whose authentication lies in the future is removed. */
  async find(id: string): Promise<LoginSession | undefined> {
    const text = ID.test(id) ? await this.#storage.getItem(sessionKey(id)) : undefined;
    const session = text === undefined ? undefined : parse(text);
    const now = this.#clock.now();
    if (session === undefined || now >= session.expiresAt) return undefined;
    if (session.authAt <= now + AHEAD_MS) return session;
    // A clock was wrong: it would last longer by as much. Removed, since the clock gets there one day.
    await this.#storage.commit([this.ending(id)]);
    return undefined;
  }

  async byCookie(value: string): Promise<LoginSession | undefined> {
    const [id = "", secret = ""] = value.split(".");
    const session = await this.find(id);
    if (session === undefined) return undefined;
    return timingSafeEqual(Buffer.from(secretHash(secret)), Buffer.from(session.secret)) ? session : undefined;
  }

  /** Returns the change that replaces a session, on condition that it is unchanged. */
  change(before: LoginSession, after: LoginSession): Change {
    return { op: "put", key: sessionKey(before.id), value: JSON.stringify(after), if: JSON.stringify(before) };
  }

  ending(id: string): Change {
    return { op: "delete", key: sessionKey(id) };
  }

  /** Returns the changes that end all sessions of a user except `spare`. */
  endAll({ username }: Pick<User, "username">, spare?: string): Promise<readonly Change[]> {
    return this.#ends((session) => session?.username === username && session.id !== spare);
  }

  /** Removes sessions that have ended, from time to time. */
  async tidy(): Promise<void> {
    const now = this.#clock.monotonic();
    if (now - this.#tidiedAt < TIDY_MS) return;
    this.#tidiedAt = now;
    // A damaged one is over: nobody can use it.
    const over = await this.#ends((session) => session === undefined || this.#clock.now() >= session.expiresAt);
    for (let i = 0; i < over.length; i += COMMITTED) await this.#storage.commit(over.slice(i, i + COMMITTED));
  }

  async #ends(which: (session: LoginSession | undefined) => boolean): Promise<readonly Change[]> {
    const changes: Change[] = [];
    for await (const { key, value } of everyEntry(this.#storage, "session:"))
      if (which(parse(value))) changes.push({ op: "delete", key });
    return changes;
  }
}
