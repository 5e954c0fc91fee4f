/**
 * Serves `/auth/users`, which does what `relay users` does while the relay runs. For tokens that own every key, with a
 * fresh second factor.
 */
import { z } from "zod";
import { isoTime } from "../../../core/lib/time.ts";
import type { Actor, AuditAction } from "../../../core/model/audit.ts";
import { Problem } from "../../../core/model/problem.ts";
import { isSteppedUp, stepUpChallenge } from "../../../core/model/token.ts";
import type { Principal } from "../../../core/ports/auth.ts";
import type { Route, RouteReply, RouteRequest } from "../../../core/ports/route.ts";
import { type AccountsDeps, actorOf, reply } from "./dependencies.ts";
import { adminRoute } from "./describe.ts";
import { readLoginBody } from "./login-body.ts";
import { ACCOUNT_STEP_UP } from "./login.ts";
import { account, codeBody, codesOnly, newAccount, newUserBody, otpauth, resetBody } from "./schemas.ts";
import { normalName } from "./user.ts";

export function userAdminRoutes(deps: AccountsDeps): readonly Route[] {
  const { users, clock, log } = deps;

  const done = ({ sub, address, requestId }: Actor, action: AuditAction, target: string): RouteReply => {
    log.info("users", { sub, action, target, address, requestId });
    return { status: 204 };
  };

  return [
    adminRoute(deps, "GET /auth/users", LISTED, async (request, principal) => {
      await admin(deps, request, principal, "accounts.listed");
      const list = await users.list();
      return reply(
        list.map(({ createdAt, lastLoginAt, ...account }) => ({
          ...account,
          createdAt: isoTime(createdAt),
          ...(lastLoginAt !== undefined && { lastLoginAt: isoTime(lastLoginAt) }),
        })),
        clock.now(),
      );
    }),
    adminRoute(deps, "POST /auth/users", CREATED, async (request, principal) => {
      const { username, password, keys = ["*"], access = "manage" } = await readLoginBody(request, newUserBody);
      const by = await admin(deps, request, principal, "account.created");
      await users.add({ username, password, keys, access }, by);
      done(by, "account.created", username);
      return reply({ username: normalName(username), keys, access }, clock.now(), {}, 201);
    }),
    adminRoute(deps, "DELETE /auth/users/{username}", REMOVED, async (request, principal) => {
      const by = await admin(deps, request, principal, "account.removed");
      await users.remove(nameOf(request), by);
      return done(by, "account.removed", nameOf(request));
    }),
    adminRoute(deps, "POST /auth/users/{username}/reset", RESET, async (request, principal) => {
      const body = await readLoginBody(request, resetBody);
      const by = await admin(deps, request, principal, "account.reset");
      await users.reset(nameOf(request), body, by);
      return done(by, "account.reset", nameOf(request));
    }),
    adminRoute(deps, "POST /auth/users/{username}/totp", BEGUN, async (request, principal) => {
      const by = await admin(deps, request, principal, "second_factor.begun");
      const shown = await users.beginTotp(nameOf(request), by);
      done(by, "second_factor.begun", nameOf(request));
      return reply(shown, clock.now());
    }),
    adminRoute(deps, "PUT /auth/users/{username}/totp", CONFIRMED, async (request, principal) => {
      const body = await readLoginBody(request, codeBody);
      const by = await admin(deps, request, principal, "second_factor.on");
      const on = await users.confirmTotp(nameOf(request), body.code, by);
      done(by, "second_factor.on", nameOf(request));
      return reply(on, clock.now());
    }),
  ];
}

const nameOf = ({ params }: RouteRequest): string => params["username"] ?? "";

/** Refuses other callers as if the path did not exist; the permitted ones need a fresh second factor. */
async function admin(
  { clock, refused }: AccountsDeps,
  request: RouteRequest,
  principal: Principal,
  action: AuditAction,
): Promise<Actor> {
  if (principal.keys !== "*") throw new Problem("NOT_FOUND", "There is no such path.");
  const actor = actorOf(principal.sub, request);
  if (isSteppedUp(principal, ACCOUNT_STEP_UP, clock.now())) return actor;
  const tried = { action, target: nameOf(request), detail: "no fresh second factor", actor, keys: "*" } as const;
  await refused(tried, principal.sub);
  const headers = { "WWW-Authenticate": stepUpChallenge(ACCOUNT_STEP_UP) };
  throw new Problem("STEP_UP_REQUIRED", "Prove your second factor again, then repeat the request.", { headers });
}

const HASHES = ["CONFLICT", "PROVIDER_BACKPRESSURE"] as const;
const LISTED = { summary: "List the accounts", answer: [200, z.array(account)] } as const;
const CREATED = { summary: "Make an account", body: newUserBody, answer: [201, newAccount], problems: HASHES } as const;
const REMOVED = {
  summary: "Remove an account and end its sessions",
  answer: [204],
  problems: ["CONFLICT"],
} as const;
const RESET = {
  summary: "Change an account's password, second factor or access; its sessions end",
  body: resetBody,
  answer: [204],
  problems: HASHES,
} as const;
const BEGUN = {
  summary: "Begin a second factor for an account",
  answer: [200, otpauth],
  problems: ["CONFLICT"],
} as const;
const CONFIRMED = {
  summary: "Turn it on with a first code",
  body: codeBody,
  answer: [200, codesOnly],
  problems: ["CONFLICT"],
} as const;
