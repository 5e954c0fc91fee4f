/** Stores sessions: a login begins one, a logout ends it on every node, since each request reads it. */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { AuditEntry } from "../../../core/model/audit.ts";
import { randomId } from "../../../core/model/ids.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { ScopedStorage } from "../../../core/ports/plugin.ts";
import type { Change } from "../../../core/ports/storage.ts";
import type { User } from "./user.ts";

export interface Session {
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
  ): { readonly session: Session; readonly cookie: string; readonly change: Change };
  /** Returns the session while it lasts. One whose authentication lies in the future is removed. */
  find(id: string): Promise<Session | undefined>;
  /** Returns the session of a cookie's value. */
  byCookie(value: string): Promise<Session | undefined>;
  /** Returns the change that replaces a session, on condition that it is unchanged. */
  change(before: Session, after: Session): Change;
  end(id: string, audit: AuditEntry): Promise<void>;
  /** Returns the changes that end all sessions of a user except `spare`. */
  endAll(uid: string, spare?: string): Promise<readonly Change[]>;
  /** Removes sessions that have ended, from time to time. */
  tidy(): Promise<void>;
}

const ID = /^ses_[0-9a-z]{26}$/;
const PAGE = 500;
const TIDY_MS = 600_000;
/** How far the clock of the node that authenticated somebody may be ahead of this one, ms. */
const AHEAD_MS = 300_000;

const sessionKey = (id: string): string => `session:${id}`;
const secretHash = (secret: string): string => hash("sha256", secret, "base64url");

export function createSessions(storage: ScopedStorage, clock: Clock, lastMs: number): Sessions {
  let tidiedAt = Number.NEGATIVE_INFINITY;

  async function* all(): AsyncGenerator<Session> {
    let after: string | undefined;
    for (;;) {
      const page = await storage.range("session:", { limit: PAGE, ...(after === undefined ? {} : { after }) });
      for (const { value } of page) yield JSON.parse(value) as Session;
      if (page.length < PAGE) return;
      after = page.at(-1)?.key;
    }
  }

  async function find(id: string): Promise<Session | undefined> {
    const text = ID.test(id) ? await storage.getItem(sessionKey(id)) : undefined;
    const session = text === undefined ? undefined : (JSON.parse(text) as Session);
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
    async endAll(uid, spare) {
      const changes: Change[] = [];
      for await (const session of all())
        if (session.uid === uid && session.id !== spare) changes.push({ op: "delete", key: sessionKey(session.id) });
      return changes;
    },
    async tidy() {
      const now = clock.monotonic();
      if (now - tidiedAt < TIDY_MS) return;
      tidiedAt = now;
      const over: Change[] = [];
      for await (const { id, expiresAt } of all())
        if (clock.now() >= expiresAt) over.push({ op: "delete", key: sessionKey(id) });
      for (let i = 0; i < over.length; i += PAGE) await storage.commit(over.slice(i, i + PAGE));
    },
  };
}
