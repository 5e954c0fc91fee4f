/** Holds what the routes of `accounts()` share. */
import { addressGroup } from "../../../core/lib/address.ts";
import { isoTime } from "../../../core/lib/time.ts";
import type { Actor, AuditAction, AuditEntry } from "../../../core/model/audit.ts";
import { Problem } from "../../../core/model/problem.ts";
import { ownClaims } from "../../../core/model/token.ts";
import type { Auth, Principal } from "../../../core/ports/auth.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Keys, Log, PluginContext, ScopedStorage } from "../../../core/ports/plugin.ts";
import type { Identified, RouteReply, RouteRequest } from "../../../core/ports/route.ts";
import type { BruteForceDelay } from "./brute-force-delay.ts";
import { setCookie } from "./cookie.ts";
import type { Passwords } from "./passwords.ts";
import type { LoginSession, Sessions } from "./sessions.ts";
import type { SetupCode } from "./setup-code.ts";
import { type Asker, RANKS } from "./turns.ts";
import type { Read, User } from "./user.ts";
import type { UserBook } from "./users.ts";

export interface AccountsDeps {
  readonly storage: ScopedStorage;
  readonly clock: Clock;
  readonly keys: Keys;
  readonly log: Log;
  readonly users: UserBook;
  readonly sessions: Sessions;
  readonly passwords: Passwords;
  readonly brake: BruteForceDelay;
  readonly setup: SetupCode;
  /** Address groups from which somebody has logged in since the start. */
  readonly loggedInFrom: Map<string, true>;
  readonly authenticate: Auth["authenticate"];
  readonly refused: PluginContext["refused"];
  readonly guess: PluginContext["guess"];
  readonly tokenMs: number;
  readonly sessionMs: number;
  /** The only `Origin` that may refresh; default: the one that the request itself was sent to. */
  readonly origin?: string;
}

/** Returns the author of a request, for the audit trail. */
export const actorOf = (sub: string, { address, requestId }: RouteRequest): Actor => ({ sub, address, requestId });

/** Builds the entry for a change that a user made to their own account, for the trails of its keys. */
export const ownAuditEntry = (
  action: AuditAction,
  { username, keys }: Pick<User, "username" | "keys">,
  request: RouteRequest,
  detail?: string,
): AuditEntry => ({
  action,
  target: username,
  actor: actorOf(username, request),
  keys,
  ...(detail !== undefined && { detail }),
});

/** Returns whose turn a request takes for scrypt. */
export function askerOf({ loggedInFrom }: AccountsDeps, { address }: RouteRequest, user: User | undefined): Asker {
  const group = addressGroup(address);
  if (loggedInFrom.has(group)) return { rank: RANKS.knownAddress, name: group };
  return user?.lastLoginAt === undefined
    ? { rank: RANKS.stranger, name: group }
    : { rank: RANKS.knownAccount, name: user.username };
}

export const unauthenticated = (detail: string): Problem => new Problem("UNAUTHENTICATED", detail);

/** Finds the owner of the access token. The limits count the account and the address. */
export const identifyOwner =
  (deps: AccountsDeps) =>
  async (request: RouteRequest): Promise<Identified<Principal>> => {
    const caller = await deps.authenticate(request);
    if ("refused" in caller) throw unauthenticated("Send a valid access token as Authorization: Bearer.");
    // A name has no spaces in it, so no account can be named like an address.
    return { counted: [caller.sub, `from ${addressGroup(request.address)}`], access: caller.access, caller };
  };

interface Owned {
  readonly session: LoginSession;
  readonly read: Read;
}

/** Returns the session and the account of a caller. @throws Problem UNAUTHENTICATED; CONFLICT for tokens without a session */
export async function sessionOf(deps: AccountsDeps, { sessionId }: Principal): Promise<Owned> {
  if (sessionId === undefined) throw new Problem("CONFLICT", "This token belongs to no session. Log in first.");
  return ownerOf(deps, await deps.sessions.find(sessionId));
}

/** Returns the account of a session, which ends with it. @throws Problem UNAUTHENTICATED */
export async function ownerOf({ users }: AccountsDeps, session: LoginSession | undefined): Promise<Owned> {
  const read = session && (await users.read(session.username));
  if (session === undefined || read?.user.uid !== session.uid)
    throw unauthenticated("The session has ended. Log in again.");
  return { session, read };
}

/**
 * Answers with an access token of a session, and notes it in the log.
 * @param event for the log: `login`
 * @param cookie begins the refresh cookie
 */
export async function grant(
  { keys, clock, tokenMs, log }: AccountsDeps,
  request: RouteRequest,
  event: string | undefined,
  { user, session, cookie }: { readonly user: User; readonly session: LoginSession; readonly cookie?: string },
  more: { readonly status?: number; readonly data?: object } = {},
): Promise<RouteReply> {
  const { address, requestId } = request;
  if (event !== undefined) log.info(event, { sub: user.username, address, requestId });
  const now = clock.now();
  const { id: sessionId, amr, authAt, expiresAt } = session;
  const owned = user.keys[0] === "*" ? "*" : user.keys;
  const claims = ownClaims(
    { sub: user.username, keys: owned, access: user.access, amr, authAt, sessionId },
    now,
    Math.min(tokenMs, expiresAt - now),
  );
  const exp = claims["exp"] as number;
  const granted = { token: await keys.signToken(claims), expiresAt: isoTime(exp * 1_000), amr };
  const headers: RouteReply["headers"] =
    cookie === undefined ? {} : { "set-cookie": setCookie(cookie, expiresAt - now) };
  return reply({ ...granted, ...more.data }, now, headers, more.status);
}

/** Builds a success: `data` in the envelope. */
export function reply(data: unknown, now: number, headers: RouteReply["headers"] = {}, status = 200): RouteReply {
  const body = JSON.stringify({ data, meta: { timestamp: isoTime(now) } });
  return { status, headers: { "content-type": "application/json", ...headers }, body };
}

/** Authentication methods: one factor, or two shown together or in turn. */
export const PASSWORD = ["pwd"];
export const TWO_FACTORS = ["pwd", "otp", "mfa"];

/** Returns the session as it is once a second factor was shown in it. */
export const risen = (session: LoginSession, now: number): LoginSession => ({
  ...session,
  amr: TWO_FACTORS,
  authAt: now,
});
