/** Serves `/auth/setup` and `/auth/totp`: the first account, and a second factor for any account. */
import type { AuditAction } from "../../../core/model/audit.ts";
import { ConflictError } from "../../../core/model/errors.ts";
import { Problem } from "../../../core/model/problem.ts";
import type { Principal } from "../../../core/ports/auth.ts";
import type { Route, RouteRequest } from "../../../core/ports/route.ts";
import { readLoginBody, reply } from "./login-body.ts";
import { setCookie } from "./cookie.ts";
import { beginTotp, useCode } from "./factors.ts";
import { describeOpen, describeOwn } from "./describe.ts";
import { codeBody, grant as grantSchema, grantWithCodes, otpauth, setupBody, totpBody } from "./schemas.ts";
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
import { SPENT } from "./setup-code.ts";
import { type User, userKey } from "./user.ts";
import { confirmed } from "./users.ts";

export function enrolRoutes(deps: AccountsDeps): readonly Route[] {
  const { storage, users, sessions, passwords, brake, guess, keys, clock, log, setup } = deps;

  async function first(request: RouteRequest): ReturnType<Route["handle"]> {
    const gone = new Problem("NOT_FOUND", "There is no such path.");
    if (await users.any()) throw gone;
    const body = await readLoginBody(request, setupBody);
    const used = await setup.use(body.code, { address: request.address, requestId: request.requestId });
    if (used === "wrong" || used === "spent") {
      const actor = actorOf("unknown account", request);
      const tried = { action: "account.created", target: "first account", detail: "wrong set-up code" } as const;
      await deps.refused({ ...tried, actor, keys: "*" }, "set-up");
      throw unauthenticated(used === "spent" ? SPENT : "The set-up code is wrong or has expired.");
    }
    const user = await users.make({ ...body, keys: ["*"] });
    const { session, cookie, change } = sessions.begin(user, PASSWORD);
    const put = { op: "put", key: userKey(user.username), value: JSON.stringify(user), if: null } as const;
    try {
      await storage.commit([used, put, change], [ownAuditEntry("account.created", user, request, "first account")]);
    } catch (error) {
      // Another request used the code, or added an account, at the same time.
      if (error instanceof ConflictError) throw gone;
      throw error;
    }
    await setup.withdraw();
    log.info("first account", { sub: user.username, address: request.address, requestId: request.requestId });
    const headers = { "set-cookie": setCookie(cookie, session.expiresAt - clock.now()) };
    return reply(await grant(deps, user, session), clock.now(), headers, 201);
  }

  const refused = (action: AuditAction, user: User, request: RouteRequest, why: string): Promise<void> =>
    deps.refused(ownAuditEntry(action, user, request, why), user.username);

  /** Returns the user, with the code used up where there is a factor to change. @throws Problem UNAUTHENTICATED */
  async function proven(
    user: User,
    given: { readonly password: string; readonly code?: string },
    request: RouteRequest,
  ): Promise<User> {
    if (!(await passwords.verify(given.password, user.password))) {
      brake.failed(user.username);
      await refused("second_factor.begun", user, request, "wrong password");
      throw unauthenticated("The password is wrong.");
    }
    brake.succeeded(user.username);
    const allowed = user.totp === undefined ? user : useCode(user, given.code ?? "", keys, clock.now());
    if (allowed !== undefined) return allowed;
    await refused("second_factor.begun", user, request, "wrong code");
    throw unauthenticated("Changing the second factor needs a code of the current one.");
  }

  /** Begins an enrolment. The current factor stays valid until the new one is confirmed. */
  async function begin(request: RouteRequest, caller: Principal): ReturnType<Route["handle"]> {
    const body = await readLoginBody(request, totpBody);
    const uri = await retryOnConflict(storage, async () => {
      const { read } = await sessionOf(deps, caller);
      await brake.wait(read.user.username, request.signal);
      const allowed = await guess("POST /auth/totp", read.user.username, () => proven(read.user, body, request));
      const { user, uri } = beginTotp(allowed, keys, clock.now());
      return {
        changes: [users.change(read, user)],
        audit: [ownAuditEntry("second_factor.begun", user, request)],
        result: uri,
      };
    });
    return reply({ uri }, clock.now());
  }

  /** Confirms it with a first code, and ends the account's other sessions. The recovery codes are shown only this once. */
  async function confirm(request: RouteRequest, caller: Principal): ReturnType<Route["handle"]> {
    const body = await readLoginBody(request, codeBody);
    const { user, session, codes } = await retryOnConflict(storage, async () => {
      const { read, session } = await sessionOf(deps, caller);
      const { user, codes } = await guess("PUT /auth/totp", read.user.username, async () => {
        try {
          return confirmed(read.user, body.code, keys, clock.now());
        } catch (error) {
          if (error instanceof Problem && error.code === "UNAUTHENTICATED")
            await refused("second_factor.on", read.user, request, "wrong code");
          throw error;
        }
      });
      const risen = { ...session, amr: TWO_FACTORS, authAt: clock.now() };
      const others = await sessions.endAll(user, session.id);
      const changes = [users.change(read, user), sessions.change(session, risen), ...others];
      return {
        changes,
        audit: [ownAuditEntry("second_factor.on", user, request)],
        result: { user, session: risen, codes },
      };
    });
    log.info("second factor on", { sub: user.username, address: request.address, requestId: request.requestId });
    return reply({ ...(await grant(deps, user, session)), recoveryCodes: codes }, clock.now());
  }

  const totp = { path: "/auth/totp", access: "read", identify: identifyOwner(deps) } as const;
  const start: Route = {
    method: "POST",
    path: "/auth/setup",
    limit: "POST /auth/setup",
    describe: describeOpen(
      "Make the first account, with the code in the data folder; there is no such path once there is one",
      { body: setupBody, answer: [201, grantSchema], problems: ["NOT_FOUND"] },
    ),
    handle: first,
  };
  const factor: readonly Route<Principal>[] = [
    {
      ...totp,
      method: "POST",
      limit: "POST /auth/totp",
      describe: describeOwn("Begin a second factor; changing one needs a code of it", {
        body: totpBody,
        answer: [200, otpauth],
        problems: ["CONFLICT", "PROVIDER_BACKPRESSURE"],
      }),
      handle: begin,
    },
    {
      ...totp,
      method: "PUT",
      limit: "PUT /auth/totp",
      describe: describeOwn("Turn the second factor on with a first code", {
        body: codeBody,
        answer: [200, grantWithCodes],
        problems: ["CONFLICT"],
      }),
      handle: confirm,
    },
  ];
  return [start, ...factor];
}
