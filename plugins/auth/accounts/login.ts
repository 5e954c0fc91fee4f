/** Serves `/auth/login`, `/step-up`, `/refresh` and `/logout`: a session's start, second factor, renewal and end. */
import { addressGroup } from "../../../core/lib/address.ts";
import { Problem } from "../../../core/model/problem.ts";
import { stepUpChallenge } from "../../../core/model/token.ts";
import type { Principal } from "../../../core/ports/auth.ts";
import type { Identified, Route, RouteRequest } from "../../../core/ports/route.ts";
import type { Change } from "../../../core/ports/storage.ts";
import { checked, readLoginBody, readLoginJson, reply } from "./login-body.ts";
import { clearCookie, isOwnOrigin, readCookie, setCookie } from "./cookie.ts";
import { useCode } from "./factors.ts";
import { describeOpen, describeOwn } from "./describe.ts";
import { codeBody, grant as grantSchema, loginBody } from "./schemas.ts";
import {
  type AccountsDeps,
  actorOf,
  grant,
  identifyOwner,
  ownAuditEntry,
  PASSWORD,
  retryOnConflict,
  sessionOf,
  TWO_FACTORS,
  unauthenticated,
} from "./dependencies.ts";
import { normalName, type Read, type User } from "./user.ts";

/** The rule of the `users` routes and of step-up; the API uses the configured rule for its own operations. */
export const ACCOUNT_STEP_UP = { acr: [], amr: ["mfa"], maxAgeMs: 300_000 };

const NOBODY = { username: "unknown account", keys: ["*"] };
const WRONG = "The username, the password or the code is wrong.";
const WRONG_CODE = "The code is wrong, or was used before. Use the next one.";

/** The body of a login, read before the limits: they count the account that it names. */
type LoginRead = { readonly json: unknown } | { readonly error: Problem };

export function loginRoutes(deps: AccountsDeps): readonly Route[] {
  const { storage, users, sessions, passwords, brake, guess, keys, clock, log } = deps;

  async function login(request: RouteRequest, read: LoginRead): ReturnType<Route["handle"]> {
    if ("error" in read) throw read.error;
    const body = checked(read.json, loginBody);
    const name = normalName(body.username);
    await brake.wait(name, request.signal);
    await sessions.tidy();
    const { user, session, cookie } = await retryOnConflict(storage, async () => {
      const read = await users.read(name);
      const right = await passwords.verify(body.password, read?.user.password);
      if (read === undefined || !right) throw await refused(name, read?.user, request);
      const { user } = read;
      if (user.totp === undefined) {
        const begun = sessions.begin(user, PASSWORD);
        const audit = [ownAuditEntry("login", user, request, PASSWORD.join(" "))];
        return { changes: [noted(read, user), begun.change], audit, result: { user, ...begun } };
      }
      if (body.code === undefined) {
        const headers = { "WWW-Authenticate": stepUpChallenge(ACCOUNT_STEP_UP) };
        throw new Problem("STEP_UP_REQUIRED", "This account has a second factor. Send its code too.", { headers });
      }
      const given = body.code;
      // Counted by the account alone: the caller knows its password, and may come from many addresses.
      const used = await guess("POST /auth/login", user.username, async () => {
        const found = useCode(user, given, keys, clock.now());
        if (found === undefined) throw await refused(name, user, request);
        return found;
      });
      const begun = sessions.begin(used, TWO_FACTORS);
      const audit = [ownAuditEntry("login", used, request, TWO_FACTORS.join(" "))];
      return { changes: [noted(read, used), begun.change], audit, result: { user: used, ...begun } };
    });
    brake.succeeded(name);
    log.info("login", { sub: user.username, address: request.address, requestId: request.requestId });
    const headers = { "set-cookie": setCookie(cookie, session.expiresAt - clock.now()) };
    return reply(await grant(deps, user, session), clock.now(), headers);
  }

  /** The account must be unchanged since its password was checked. */
  const noted = (read: Read, user: User): Change => users.change(read, { ...user, lastLoginAt: clock.now() });

  /** Does not repeat a name that is no account: it may be a password in the wrong field. */
  async function refused(name: string, user: User | undefined, request: RouteRequest): Promise<Problem> {
    brake.failed(name);
    log.info("login refused", { address: request.address, requestId: request.requestId });
    await deps.refused(ownAuditEntry("login", user ?? NOBODY, request), name);
    return unauthenticated(WRONG);
  }

  async function stepUp(request: RouteRequest, caller: Principal): ReturnType<Route["handle"]> {
    const body = await readLoginBody(request, codeBody);
    const { user, session } = await retryOnConflict(storage, async () => {
      const { read, session } = await sessionOf(deps, caller);
      if (read.user.totp === undefined)
        throw new Problem("CONFLICT", "This account has no second factor. Turn one on with POST /auth/totp.");
      const used = await guess("POST /auth/step-up", read.user.username, async () => {
        const found = useCode(read.user, body.code, keys, clock.now());
        if (found !== undefined) return found;
        await deps.refused(ownAuditEntry("step_up", read.user, request, "wrong code"), read.user.username);
        throw unauthenticated(WRONG_CODE);
      });
      const risen = { ...session, amr: TWO_FACTORS, authAt: clock.now() };
      const changes = [users.change(read, used), sessions.change(session, risen)];
      return { changes, audit: [ownAuditEntry("step_up", used, request)], result: { user: used, session: risen } };
    });
    log.info("step-up", { sub: user.username, address: request.address, requestId: request.requestId });
    return reply(await grant(deps, user, session), clock.now());
  }

  async function refresh(request: RouteRequest): ReturnType<Route["handle"]> {
    if (!isOwnOrigin(request, deps.origin)) throw unauthenticated("Refresh from a page of the relay itself.");
    const cookie = readCookie(request);
    const session = cookie === undefined ? undefined : await sessions.byCookie(cookie);
    const read = session && (await users.read(session.username));
    if (session === undefined || read?.user.uid !== session.uid)
      throw unauthenticated("The session has ended. Log in again.");
    return reply(await grant(deps, read.user, session), clock.now());
  }

  async function logout(request: RouteRequest, caller: Principal): ReturnType<Route["handle"]> {
    const { sessionId, sub, keys: owned } = caller;
    if (sessionId === undefined) throw new Problem("CONFLICT", "This token belongs to no session. It ends by time.");
    await sessions.end(sessionId, { action: "logout", target: sub, actor: actorOf(sub, request), keys: owned });
    log.info("logout", { sub, address: request.address, requestId: request.requestId });
    return { status: 204, headers: { "set-cookie": clearCookie() } };
  }

  /** Counts the address, and the account at that address when the body names one. */
  async function identifyLogin(request: RouteRequest): Promise<Identified<LoginRead>> {
    const address = addressGroup(request.address);
    try {
      const json = await readLoginJson(request);
      const { username } = (json ?? {}) as { readonly username?: unknown };
      const counted = typeof username === "string" ? [address, `${normalName(username)} at ${address}`] : [address];
      return { counted, caller: { json } };
    } catch (error) {
      // What is wrong with the body is reported after the request has been counted.
      if (error instanceof Problem) return { counted: [address], caller: { error } };
      throw error;
    }
  }

  const begin: Route<LoginRead> = {
    method: "POST",
    path: "/auth/login",
    limit: "POST /auth/login",
    describe: describeOpen("Log in; the answer also sets the refresh cookie", {
      body: loginBody,
      answer: [200, grantSchema],
      problems: ["STEP_UP_REQUIRED", "PROVIDER_BACKPRESSURE", "CONFLICT"],
    }),
    identify: identifyLogin,
    handle: login,
  };
  const goOn: Route = {
    method: "POST",
    path: "/auth/refresh",
    limit: "POST /auth/refresh",
    describe: describeOpen("A new token by the refresh cookie, from a page of the relay itself", {
      answer: [200, grantSchema],
    }),
    handle: refresh,
  };
  const identify = identifyOwner(deps);
  const owned: readonly Route<Principal>[] = [
    {
      method: "POST",
      path: "/auth/step-up",
      access: "read",
      limit: "POST /auth/step-up",
      describe: describeOwn("Show the second factor again", {
        body: codeBody,
        answer: [200, grantSchema],
        problems: ["CONFLICT"],
      }),
      identify,
      handle: stepUp,
    },
    {
      method: "POST",
      path: "/auth/logout",
      access: "read",
      limit: "POST /auth/logout",
      describe: describeOwn("End the session: its tokens are dead on every node", {
        answer: [204],
        problems: ["CONFLICT"],
      }),
      identify,
      handle: logout,
    },
  ];
  return [begin, goOn, ...owned];
}
