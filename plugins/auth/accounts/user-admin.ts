/**
 * Serves `/auth/users`, which does what `relay users` does while the relay runs. For tokens that own every key, with a
 * fresh second factor.
 */
import type { Actor, AuditAction } from "../../../core/model/audit.ts";
import { Problem } from "../../../core/model/problem.ts";
import { isoTime } from "../../../core/lib/time.ts";
import type { Principal } from "../../../core/ports/auth.ts";
import { isSteppedUp, stepUpChallenge } from "../../../core/model/token.ts";
import type { Route, RouteDescription, RouteReply, RouteRequest } from "../../../core/ports/route.ts";
import { z } from "zod";
import { describeAdmin } from "./describe.ts";
import { readLoginBody, reply } from "./login-body.ts";
import { ACCOUNT_STEP_UP } from "./login.ts";
import { account, codeBody, codesOnly, newAccount, newUserBody, otpauth, resetBody } from "./schemas.ts";
import { type AccountsDeps, actorOf, identifyOwner } from "./dependencies.ts";
import { normalName } from "./user.ts";

export function userAdminRoutes(parts: AccountsDeps): readonly Route[] {
  const { users, clock, log } = parts;

  /** Refuses other callers as if the path did not exist; the permitted ones need a fresh second factor. */
  async function admin(request: RouteRequest, principal: Principal, action: AuditAction): Promise<Actor> {
    if (principal.keys !== "*") throw new Problem("NOT_FOUND", "There is no such path.");
    const actor = actorOf(principal.sub, request);
    if (isSteppedUp(principal, ACCOUNT_STEP_UP, clock.now())) return actor;
    const tried = { action, target: name(request), detail: "no fresh second factor", actor, keys: "*" } as const;
    await parts.refused(tried, principal.sub);
    const headers = { "WWW-Authenticate": stepUpChallenge(ACCOUNT_STEP_UP) };
    throw new Problem("STEP_UP_REQUIRED", "Prove your second factor again, then repeat the request.", { headers });
  }

  const done = ({ sub, address, requestId }: Actor, action: AuditAction, target: string): RouteReply => {
    log.info("users", { sub, action, target, address, requestId });
    return { status: 204 };
  };
  const name = (request: RouteRequest): string => request.params["username"] ?? "";

  const route = (
    method: Route["method"],
    path: string,
    describe: RouteDescription,
    handle: Route<Principal>["handle"],
  ): Route<Principal> => ({
    method,
    path,
    limit: `${method} ${path}`,
    describe,
    identify: identifyOwner(parts),
    handle,
  });

  return [
    route("GET", "/auth/users", listed, async (request, principal) => {
      await admin(request, principal, "accounts.listed");
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
    route("POST", "/auth/users", created, async (request, principal) => {
      const { username, password, keys = ["*"], access = "manage" } = await readLoginBody(request, newUserBody);
      const by = await admin(request, principal, "account.created");
      await users.add({ username, password, keys, access }, by);
      done(by, "account.created", username);
      return reply({ username: normalName(username), keys, access }, clock.now(), {}, 201);
    }),
    route("DELETE", "/auth/users/{username}", removed, async (request, principal) => {
      const by = await admin(request, principal, "account.removed");
      await users.remove(name(request), by);
      return done(by, "account.removed", name(request));
    }),
    route("POST", "/auth/users/{username}/reset", reset, async (request, principal) => {
      const body = await readLoginBody(request, resetBody);
      const by = await admin(request, principal, "account.reset");
      await users.reset(name(request), body, by);
      return done(by, "account.reset", name(request));
    }),
    route("POST", "/auth/users/{username}/totp", begun, async (request, principal) => {
      const by = await admin(request, principal, "second_factor.begun");
      const shown = await users.beginTotp(name(request), by);
      done(by, "second_factor.begun", name(request));
      return reply(shown, clock.now());
    }),
    route("PUT", "/auth/users/{username}/totp", confirmed, async (request, principal) => {
      const body = await readLoginBody(request, codeBody);
      const by = await admin(request, principal, "second_factor.on");
      const on = await users.confirmTotp(name(request), body.code, by);
      done(by, "second_factor.on", name(request));
      return reply(on, clock.now());
    }),
  ];
}

const listed = describeAdmin("List the accounts", { answer: [200, z.array(account)] });
const created = describeAdmin("Make an account", {
  body: newUserBody,
  answer: [201, newAccount],
  problems: ["CONFLICT", "PROVIDER_BACKPRESSURE"],
});
const removed = describeAdmin("Remove an account and end its sessions", { answer: [204], problems: ["CONFLICT"] });
const reset = describeAdmin("Change an account's password, second factor or access; its sessions end", {
  body: resetBody,
  answer: [204],
  problems: ["CONFLICT", "PROVIDER_BACKPRESSURE"],
});
const begun = describeAdmin("Begin a second factor for an account", {
  answer: [200, otpauth],
  problems: ["CONFLICT"],
});
const confirmed = describeAdmin("Turn it on with a first code", {
  body: codeBody,
  answer: [200, codesOnly],
  problems: ["CONFLICT"],
});
