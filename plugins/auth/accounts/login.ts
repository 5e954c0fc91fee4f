/** Serves `/auth/login`, `/step-up`, `/refresh` and `/logout`: a session's start, second factor, renewal and end. */
import { addressGroup } from "../../../core/lib/address.ts";
import { setNewest } from "../../../core/lib/bounded-map.ts";
import { STRANGER } from "../../../core/model/audit.ts";
import { Problem } from "../../../core/model/problem.ts";
import { stepUpChallenge } from "../../../core/model/token.ts";
import type { Principal } from "../../../core/ports/auth.ts";
import type { Identified, Route, RouteReply, RouteRequest } from "../../../core/ports/route.ts";
import { clearCookie, isOwnOrigin, readCookie } from "./cookie.ts";
import { openRoute, ownRoute } from "./describe.ts";
import { useCode } from "./factors.ts";
import { checked, readLoginBody, readLoginJson } from "./login-body.ts";
import { codeBody, grant as grantSchema, loginBody } from "./schemas.ts";
import {
  type AccountsDeps,
  actorOf,
  askerOf,
  grant,
  ownAuditEntry,
  ownerOf,
  PASSWORD,
  risen,
  sessionOf,
  TWO_FACTORS,
  unauthenticated,
} from "./dependencies.ts";
import { retryOnConflict } from "./stored.ts";
import { endedOnce, isDamaged, normalName, type User } from "./user.ts";

/** The rule of the `users` routes and of step-up; the API uses the configured rule for its own operations. */
export const ACCOUNT_STEP_UP = { acr: [], amr: ["mfa"], maxAgeMs: 300_000 };

/** Addresses that are remembered as having logged in, the newest. */
const MOST_ADDRESSES = 10_000;
const NOBODY = { username: STRANGER, keys: ["*"] };
const WRONG = "The username, the password or the code is wrong.";
const WRONG_CODE = "The code is wrong, or was used before. Use the next one.";

/** The body of a login, read before the limits: they count the account that it names. */
type LoginRead = { readonly json: unknown } | { readonly error: Problem };

export const loginRoutes = (deps: AccountsDeps): readonly Route[] => [
  openRoute<LoginRead>(
    "POST /auth/login",
    {
      operationId: "login",
      summary: "Log in; the answer also sets the refresh cookie",
      body: loginBody,
      answer: [200, grantSchema],
      problems: ["STEP_UP_REQUIRED", "PROVIDER_BACKPRESSURE", "CONFLICT"],
    },
    { identify: identifyLogin, handle: (request, read) => login(deps, request, read) },
  ),
  openRoute(
    "POST /auth/refresh",
    {
      operationId: "refreshSession",
      summary: "A new token by the refresh cookie, from a page of the relay itself",
      answer: [200, grantSchema],
    },
    { handle: (request) => refresh(deps, request) },
  ),
  ownRoute(
    deps,
    "POST /auth/step-up",
    {
      operationId: "stepUp",
      summary: "Show the second factor again",
      body: codeBody,
      answer: [200, grantSchema],
      problems: ["CONFLICT"],
    },
    (request, caller) => stepUp(deps, request, caller),
  ),
  ownRoute(
    deps,
    "POST /auth/logout",
    {
      operationId: "logout",
      summary: "End the session: its tokens are dead on every node",
      answer: [204],
      problems: ["CONFLICT"],
    },
    (request, caller) => logout(deps, request, caller),
  ),
];

/** Counts the address, and the account at that address when the body names one. */
async function identifyLogin(request: RouteRequest): Promise<Identified<LoginRead>> {
  const address = addressGroup(request.address);
  try {
    const json = await readLoginJson(request);
    const { username } = (json ?? {}) as { readonly username?: unknown };
    const counted = typeof username === "string" ? [address, `${normalName(username)} at ${address}`] : [address];
    return { counted, caller: { json } };
  } catch (error) {
    // A problem of the body is reported after the request has been counted.
    if (error instanceof Problem) return { counted: [address], caller: { error } };
    throw error;
  }
}

async function login(deps: AccountsDeps, request: RouteRequest, given: LoginRead): Promise<RouteReply> {
  if ("error" in given) throw given.error;
  const { storage, users, sessions, passwords, brake, clock } = deps;
  const body = checked(given.json, loginBody);
  const name = normalName(body.username);
  await brake.wait(name, request.signal);
  await sessions.tidy();
  const begun = await retryOnConflict(storage, async () => {
    const read = await users.read(name);
    const right = await passwords.verify(body.password, read?.user.password, askerOf(deps, request, read?.user));
    if (read === undefined || !right) throw await refused(deps, name, read?.user, request);
    const two = read.user.totp !== undefined;
    const user = two ? await withCode(deps, name, read.user, body.code, request) : read.user;
    const amr = two ? TWO_FACTORS : PASSWORD;
    const { session, cookie, change } = sessions.begin(user, amr);
    // The account must be unchanged since its password was checked.
    const noted = users.change(read, { ...user, lastLoginAt: clock.now() });
    const audit = [ownAuditEntry("login", user, request, amr.join(" "))];
    return { changes: [noted, change], audit, result: { user, session, cookie } };
  });
  brake.succeeded(name);
  setNewest(deps.loggedInFrom, addressGroup(request.address), true, MOST_ADDRESSES);
  return grant(deps, request, "login", begun);
}

/** Returns the user with the code used up. @throws Problem STEP_UP_REQUIRED without a code, UNAUTHENTICATED for a wrong one */
async function withCode(deps: AccountsDeps, name: string, user: User, code: string | undefined, request: RouteRequest) {
  const { guess, keys, clock } = deps;
  if (code === undefined) {
    const headers = { "WWW-Authenticate": stepUpChallenge(ACCOUNT_STEP_UP) };
    throw new Problem("STEP_UP_REQUIRED", "This account has a second factor. Send its code too.", { headers });
  }
  // Counted by the account alone: the caller knows its password, and may come from many addresses.
  return guess("POST /auth/login", user.username, async () => {
    const found = useCode(user, code, keys, clock.now());
    if (found === undefined) throw await refused(deps, name, user, request);
    return found;
  });
}

/** Does not repeat a name that is no account: it may be a password in the wrong field. */
async function refused(
  { brake, log, refused: note }: AccountsDeps,
  name: string,
  user: User | undefined,
  request: RouteRequest,
): Promise<Problem> {
  brake.failed(name);
  log.info("login refused", { address: request.address, requestId: request.requestId });
  await note(ownAuditEntry("login", user ?? NOBODY, request), name);
  return unauthenticated(WRONG);
}

async function stepUp(deps: AccountsDeps, request: RouteRequest, caller: Principal): Promise<RouteReply> {
  const { storage, users, sessions, guess, keys, clock } = deps;
  const body = await readLoginBody(request, codeBody);
  const shown = await retryOnConflict(storage, async () => {
    const { read, session: before } = await sessionOf(deps, caller);
    if (read.user.totp === undefined)
      throw new Problem("CONFLICT", "This account has no second factor. Turn one on with POST /auth/totp.");
    const user = await guess("POST /auth/step-up", read.user.username, async () => {
      const found = useCode(read.user, body.code, keys, clock.now());
      if (found !== undefined) return found;
      await deps.refused(ownAuditEntry("step_up", read.user, request, "wrong code"), read.user.username);
      throw unauthenticated(WRONG_CODE);
    });
    const session = risen(before, clock.now());
    const changes = [users.change(read, user), sessions.change(before, session)];
    return { changes, audit: [ownAuditEntry("step_up", user, request)], result: { user, session } };
  });
  return grant(deps, request, "step-up", shown);
}

async function refresh(deps: AccountsDeps, request: RouteRequest): Promise<RouteReply> {
  if (!isOwnOrigin(request, deps.origin)) throw unauthenticated("Refresh from a page of the relay itself.");
  const cookie = readCookie(request);
  const { read, session } = await ownerOf(
    deps,
    cookie === undefined ? undefined : await deps.sessions.byCookie(cookie),
  );
  return grant(deps, request, undefined, { user: read.user, session });
}

/** Ends the session, and the portal links that the account has made. */
async function logout(deps: AccountsDeps, request: RouteRequest, caller: Principal): Promise<RouteReply> {
  const { storage, users, sessions, log } = deps;
  const { sessionId, sub, keys } = caller;
  if (sessionId === undefined) throw new Problem("CONFLICT", "This token belongs to no session. It ends by time.");
  const entry = { action: "logout", target: sub, actor: actorOf(sub, request), keys } as const;
  await retryOnConflict(storage, async () => {
    const read = await users.read(sub);
    const noted = read === undefined || isDamaged(read.user) ? [] : [users.change(read, endedOnce(read.user))];
    return { changes: [sessions.ending(sessionId), ...noted], audit: [entry], result: undefined };
  });
  log.info("logout", { sub, address: request.address, requestId: request.requestId });
  return { status: 204, headers: { "set-cookie": clearCookie() } };
}
