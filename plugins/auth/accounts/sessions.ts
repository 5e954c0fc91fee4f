/** Stores sessions: a login begins one, a logout ends it on every node, since each request reads it. */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { AuditEntry } from "../../../core/model/audit.ts";
import { randomId } from "../../../core/model/ids.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { ScopedStorage } from "../../../core/ports/plugin.ts";
import type { Change } from "../../../core/ports/storage.ts";
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

export interface Sessions {
  /** Returns a new session with the value of its cookie, and the change that stores it. */
  begin(
    user: User,
    amr: readonly string[],
  ): { readonly session: LoginSession; readonly cookie: string; readonly change: Change };
  /** Returns the session while it lasts. One whose authentication lies in the future is removed. */
  find(id: string): Promise<LoginSession | undefined>;
  /** Returns the session of a cookie's value. */
  byCookie(value: string): Promise<LoginSession | undefined>;
  /** Returns the change that replaces a session, on condition that it is unchanged. */
  change(before: LoginSession, after: LoginSession): Change;
  end(id: string, audit: AuditEntry): Promise<void>;
  /** Returns the changes that end all sessions of a user except `spare`. */
  endAll(user: Pick<User, "username">, spare?: string): Promise<readonly Change[]>;
  /** Removes sessions that have ended, from time to time. */
  tidy(): Promise<void>;
}

const ID = /^ses_[0-9a-z]{26}$/;
const PAGE = 500;
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

export function createSessions(storage: ScopedStorage, clock: Clock, lastMs: number): Sessions {
  let tidiedAt = Number.NEGATIVE_INFINITY;

  /** Yields every session; of one whose record is damaged, only its key. */
  async function* all(): AsyncGenerator<{ readonly key: string; readonly session: LoginSession | undefined }> {
    let after: string | undefined;
    for (;;) {
      const page = await storage.range("session:", { limit: PAGE, ...(after === undefined ? {} : { after }) });
      for (const { key, value } of page) yield { key, session: parse(value) };
      if (page.length < PAGE) return;
      after = page.at(-1)?.key;
    }
  }

  async function find(id: string): Promise<LoginSession | undefined> {
    const text = ID.test(id) ? await storage.getItem(sessionKey(id)) : undefined;
    const session = text === undefined ? undefined : parse(text);
    if (session === undefined || clock.now() >= session.expiresAt) return undefined;
    if (session.authAt <= clock.now() + AHEAD_MS) return session;
    // A clock was wrong: it would last longer by as much. Removed, since the clock gets there one day.
    await storage.commit([{ op: "delete", key: sessionKey(id) }]);
    return undefined;
  }

  return {
    find,
    begin({ uid, username }, amr) {
      const secret = randomBytes(32).toString("base64url");
      const now = clock.now();
      const id = randomId("ses");
      const session = { id, uid, username, secret: secretHash(secret), amr, authAt: now, expiresAt: now + lastMs };
      const change: Change = { op: "put", key: sessionKey(id), value: JSON.stringify(session), if: null };
      return { session, cookie: `${id}.${secret}`, change };
    },
    async byCookie(value) {
      const [id = "", secret = ""] = value.split(".");
      const session = await find(id);
      if (session === undefined) return undefined;
      const same = timingSafeEqual(Buffer.from(secretHash(secret)), Buffer.from(session.secret));
      return same ? session : undefined;
    },
    change: (before, after) => ({
      op: "put",
      key: sessionKey(before.id),
      value: JSON.stringify(after),
      if: JSON.stringify(before),
    }),
    end: (id, audit) => storage.commit([{ op: "delete", key: sessionKey(id) }], [audit]),
    async endAll({ username }, spare) {
      const changes: Change[] = [];
      for await (const { key, session } of all())
        if (session?.username === username && session.id !== spare) changes.push({ op: "delete", key });
      return changes;
    },
    async tidy() {
      const now = clock.monotonic();
      if (now - tidiedAt < TIDY_MS) return;
      tidiedAt = now;
      const over: Change[] = [];
      // A damaged one is over: nobody can use it.
      for await (const { key, session } of all())
        if (session === undefined || clock.now() >= session.expiresAt) over.push({ op: "delete", key });
      for (let i = 0; i < over.length; i += PAGE) await storage.commit(over.slice(i, i + PAGE));
    },
  };
}
