/** Serves `/auth/setup` and `/auth/totp`: the first account, and a second factor for any account. */
import { type AuditAction, STRANGER } from "../../../core/model/audit.ts";
import { ConflictError } from "../../../core/model/errors.ts";
import { Problem } from "../../../core/model/problem.ts";
import type { Principal } from "../../../core/ports/auth.ts";
import type { Route, RouteReply, RouteRequest } from "../../../core/ports/route.ts";
import { openRoute, ownRoute } from "./describe.ts";
import { beginTotp, confirmTotp, useCode } from "./factors.ts";
import { readLoginBody } from "./login-body.ts";
import { codeBody, grant as grantSchema, grantWithCodes, otpauth, setupBody, totpBody } from "./schemas.ts";
import {
  type AccountsDeps,
  actorOf,
  askerOf,
  grant,
  ownAuditEntry,
  PASSWORD,
  reply,
  risen,
  sessionOf,
  unauthenticated,
} from "./dependencies.ts";
import { retryOnConflict } from "./stored.ts";
import { SPENT } from "./setup-code.ts";
import { endedOnce, type User, userKey } from "./user.ts";

export const enrolRoutes = (deps: AccountsDeps): readonly Route[] => [
  openRoute(
    "POST /auth/setup",
    {
      operationId: "setUpFirstAccount",
      summary: "Make the first account, with the code in the data folder; there is no such path once there is one",
      body: setupBody,
      answer: [201, grantSchema],
      problems: ["NOT_FOUND"],
    },
    { handle: (request) => first(deps, request) },
  ),
  ownRoute(
    deps,
    "POST /auth/totp",
    {
      operationId: "beginTotp",
      summary: "Begin a second factor; changing one needs a code of it",
      body: totpBody,
      answer: [200, otpauth],
      problems: ["CONFLICT", "PROVIDER_BACKPRESSURE"],
    },
    (request, caller) => begin(deps, request, caller),
  ),
  ownRoute(
    deps,
    "PUT /auth/totp",
    {
      operationId: "confirmTotp",
      summary: "Turn the second factor on with a first code",
      body: codeBody,
      answer: [200, grantWithCodes],
      problems: ["CONFLICT"],
    },
    (request, caller) => confirm(deps, request, caller),
  ),
];

async function first(deps: AccountsDeps, request: RouteRequest): Promise<RouteReply> {
  const { storage, users, sessions, setup } = deps;
  const gone = new Problem("NOT_FOUND", "There is no such path.");
  if (await users.any()) throw gone;
  const body = await readLoginBody(request, setupBody);
  const used = await setup.use(body.code, { address: request.address, requestId: request.requestId });
  if (used === "wrong" || used === "spent") {
    const actor = actorOf(STRANGER, request);
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
  return grant(deps, request, "first account", { user, session, cookie }, { status: 201 });
}

/** Begins an enrolment. The current factor stays valid until the new one is confirmed. */
async function begin(deps: AccountsDeps, request: RouteRequest, caller: Principal): Promise<RouteReply> {
  const { storage, users, brake, guess, keys, clock } = deps;
  const body = await readLoginBody(request, totpBody);
  const uri = await retryOnConflict(storage, async () => {
    const { read } = await sessionOf(deps, caller);
    await brake.wait(read.user.username, request.signal);
    const allowed = await guess("POST /auth/totp", read.user.username, () => proven(deps, read.user, body, request));
    const { user, uri } = beginTotp(allowed, keys, clock.now());
    const audit = [ownAuditEntry("second_factor.begun", user, request)];
    return { changes: [users.change(read, user)], audit, result: uri };
  });
  return reply({ uri }, clock.now());
}

/** Returns the user, with the code used up where there is a factor to change. @throws Problem UNAUTHENTICATED */
async function proven(
  deps: AccountsDeps,
  user: User,
  given: { readonly password: string; readonly code?: string },
  request: RouteRequest,
): Promise<User> {
  const { passwords, brake, keys, clock } = deps;
  if (!(await passwords.verify(given.password, user.password, askerOf(deps, request, user)))) {
    brake.failed(user.username);
    await refused(deps, "second_factor.begun", user, request, "wrong password");
    throw unauthenticated("The password is wrong.");
  }
  brake.succeeded(user.username);
  const allowed = user.totp === undefined ? user : useCode(user, given.code ?? "", keys, clock.now());
  if (allowed !== undefined) return allowed;
  await refused(deps, "second_factor.begun", user, request, "wrong code");
  throw unauthenticated("Changing the second factor needs a code of the current one.");
}

/** Confirms it with a first code, and ends the account's other sessions. The recovery codes are shown only this once. */
async function confirm(deps: AccountsDeps, request: RouteRequest, caller: Principal): Promise<RouteReply> {
  const { storage, users, sessions, guess, keys, clock } = deps;
  const body = await readLoginBody(request, codeBody);
  const { recoveryCodes, ...on } = await retryOnConflict(storage, async () => {
    const { read, session: before } = await sessionOf(deps, caller);
    const { user, codes } = await guess("PUT /auth/totp", read.user.username, async () => {
      try {
        return confirmTotp(read.user, body.code, keys, clock.now());
      } catch (error) {
        if (error instanceof Problem && error.code === "UNAUTHENTICATED")
          await refused(deps, "second_factor.on", read.user, request, "wrong code");
        throw error;
      }
    });
    const session = risen(before, clock.now());
    const others = await sessions.endAll(user, session.id);
    const changes = [users.change(read, endedOnce(user)), sessions.change(before, session), ...others];
    const audit = [ownAuditEntry("second_factor.on", user, request)];
    return { changes, audit, result: { user, session, recoveryCodes: codes } };
  });
  return grant(deps, request, "second factor on", on, { data: { recoveryCodes } });
}

const refused = (deps: AccountsDeps, action: AuditAction, user: User, request: RouteRequest, why: string) =>
  deps.refused(ownAuditEntry(action, user, request, why), user.username);
