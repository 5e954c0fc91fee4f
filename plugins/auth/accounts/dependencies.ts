/** Holds what the routes of `accounts()` share. */
import { untilCommitted } from "../../../core/model/errors.ts";
import { addressGroup } from "../../../core/lib/address.ts";
import { Problem } from "../../../core/model/problem.ts";
import { ownClaims } from "../../../core/model/token.ts";
import type { Actor, AuditAction, AuditEntry } from "../../../core/model/audit.ts";
import type { Auth, Principal } from "../../../core/ports/auth.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Keys, Log, PluginContext, ScopedStorage } from "../../../core/ports/plugin.ts";
import type { Identified, RouteRequest } from "../../../core/ports/route.ts";
import type { Change } from "../../../core/ports/storage.ts";
import type { Passwords } from "./passwords.ts";
import type { LoginSession, Sessions } from "./sessions.ts";
import type { SetupCode } from "./setup-code.ts";
import type { BruteForceDelay } from "./brute-force-delay.ts";
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

export const unauthenticated = (detail: string): Problem => new Problem("UNAUTHENTICATED", detail);

/** @throws Problem UNAUTHENTICATED */
async function owner(deps: AccountsDeps, request: RouteRequest): Promise<Principal> {
  const found = await deps.authenticate(request);
  if ("refused" in found) throw unauthenticated("Send a valid access token as Authorization: Bearer.");
  return found;
}

/** The owner of the access token. The limits count the account and the address. */
export const identifyOwner =
  (deps: AccountsDeps) =>
  async (request: RouteRequest): Promise<Identified<Principal>> => {
    const caller = await owner(deps, request);
    // A name has no spaces in it, so no account can be named like an address.
    return { counted: [caller.sub, `from ${addressGroup(request.address)}`], access: caller.access, caller };
  };

/** The session and the account of a caller. @throws Problem UNAUTHENTICATED; CONFLICT for tokens without a session */
export async function sessionOf(
  deps: AccountsDeps,
  { sessionId }: Principal,
): Promise<{ readonly session: LoginSession; readonly read: Read }> {
  if (sessionId === undefined) throw new Problem("CONFLICT", "This token belongs to no session. Log in first.");
  const session = await deps.sessions.find(sessionId);
  const read = session && (await deps.users.read(session.username));
  if (session === undefined || read?.user.uid !== session.uid)
    throw unauthenticated("The session has ended. Log in again.");
  return { session, read };
}

interface Granted {
  readonly token: string;
  /** ISO 8601. */
  readonly expiresAt: string;
  readonly amr: readonly string[];
}

/** Issues an access token of a session. */
export async function grant(
  { keys, clock, tokenMs }: AccountsDeps,
  user: User,
  session: LoginSession,
): Promise<Granted> {
  const now = clock.now();
  const { id: sessionId, amr, authAt, expiresAt } = session;
  const owned = user.keys[0] === "*" ? "*" : user.keys;
  const claims = ownClaims(
    { sub: user.username, keys: owned, access: user.access, amr, authAt, sessionId },
    now,
    Math.min(tokenMs, expiresAt - now),
  );
  const exp = claims["exp"] as number;
  return { token: await keys.signToken(claims), expiresAt: new Date(exp * 1_000).toISOString(), amr };
}

/** Authentication methods: one factor, or two shown together or in turn. */
export const PASSWORD = ["pwd"];
export const TWO_FACTORS = ["pwd", "otp", "mfa"];

const TRIES = 4;

/** Reads, decides and commits; starts over when another change came first, so that a code is used once even in a race. */
export const retryOnConflict = <T>(
  storage: ScopedStorage,
  decide: () => Promise<{
    readonly changes: readonly Change[];
    readonly audit?: readonly AuditEntry[];
    readonly result: T;
  }>,
): Promise<T> =>
  untilCommitted(async () => {
    const { changes, audit = [], result } = await decide();
    if (changes.length > 0) await storage.commit(changes, audit);
    return result;
  }, TRIES);
