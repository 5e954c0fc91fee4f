/** Serves `/auth/users`, as `relay users`, for tokens that own every key, with a fresh second factor. */
import { z } from "zod";
import { isoTime } from "../../../core/lib/time.ts";
import type { Actor, AuditAction } from "../../../core/model/audit.ts";
import { Problem } from "../../../core/model/problem.ts";
import { isSteppedUp, stepUpChallenge } from "../../../core/model/token.ts";
import type { Account, Principal } from "../../../core/ports/auth.ts";
import type { Route, RouteRequest } from "../../../core/ports/route.ts";
import { type AccountsDeps, actorOf, reply } from "./dependencies.ts";
import { adminRoute, type Described, type Name } from "./describe.ts";
import { readLoginBody } from "./login-body.ts";
import { ACCOUNT_STEP_UP } from "./login.ts";
import { account, codeBody, codesOnly, newAccount, newUserBody, otpauth, resetBody } from "./schemas.ts";
import { normalName } from "./user.ts";

interface AdminRoute<Body> extends Omit<Described, "body"> {
  readonly action: AuditAction;
  readonly body?: z.ZodType<Body>;
  /** Resolves to the data of the answer, if it has any. */
  work(by: Actor, username: string, body: Body): Promise<unknown>;
}

export function userAdminRoutes(deps: AccountsDeps): readonly Route[] {
  const { users } = deps;
  const route = <Body>(name: Name, given: AdminRoute<Body>) =>
    adminRoute(deps, name, given, (request, principal) => serve(deps, given, request, principal));
  return [
    route("GET /auth/users", {
      operationId: "listUsers",
      summary: "List the accounts",
      action: "accounts.listed",
      answer: [200, z.array(account)],
      work: async () => (await users.list()).map(shown),
    }),
    route("POST /auth/users", {
      operationId: "createUser",
      summary: "Make an account",
      action: "account.created",
      body: newUserBody,
      answer: [201, newAccount],
      problems: ["CONFLICT", "PROVIDER_BACKPRESSURE"],
      async work(by, _, { username, password, keys = ["*"], access = "manage" }) {
        await users.add({ username, password, keys, access }, by);
        return { username: normalName(username), keys, access };
      },
    }),
    route("DELETE /auth/users/{username}", {
      operationId: "deleteUser",
      summary: "Remove an account and end its sessions",
      action: "account.removed",
      answer: [204],
      problems: ["CONFLICT"],
      work: (by, username) => users.remove(username, by),
    }),
    route("POST /auth/users/{username}/reset", {
      operationId: "resetUser",
      summary: "Change an account's password, second factor or access; its sessions end",
      action: "account.reset",
      body: resetBody,
      answer: [204],
      problems: ["CONFLICT", "PROVIDER_BACKPRESSURE"],
      work: (by, username, body) => users.reset(username, body, by),
    }),
    route("POST /auth/users/{username}/totp", {
      operationId: "beginTotpOfUser",
      summary: "Begin a second factor for an account",
      action: "second_factor.begun",
      answer: [200, otpauth],
      problems: ["CONFLICT"],
      work: (by, username) => users.beginTotp(username, by),
    }),
    route("PUT /auth/users/{username}/totp", {
      operationId: "confirmTotpOfUser",
      summary: "Turn it on with a first code",
      action: "second_factor.on",
      body: codeBody,
      answer: [200, codesOnly],
      problems: ["CONFLICT"],
      work: (by, username, { code }) => users.confirmTotp(username, code, by),
    }),
  ];
}

async function serve<Body>(
  deps: AccountsDeps,
  { action, body: schema, answer: [status], work }: AdminRoute<Body>,
  request: RouteRequest,
  principal: Principal,
) {
  const body = schema === undefined ? undefined : await readLoginBody(request, schema);
  const { username = "" } = request.params;
  const by = await admin(deps, request, principal, action);
  const data = await work(by, username, body as Body);
  const { sub, address, requestId } = by;
  const target = username === "" ? (body as { readonly username?: string } | undefined)?.username : username;
  if (action !== "accounts.listed") deps.log.info("users", { sub, action, target, address, requestId });
  return data === undefined ? { status } : reply(data, deps.clock.now(), {}, status);
}

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
  const { username: target = "" } = request.params;
  await refused({ action, target, detail: "no fresh second factor", actor, keys: "*" }, principal.sub);
  const headers = { "WWW-Authenticate": stepUpChallenge(ACCOUNT_STEP_UP) };
  throw new Problem("STEP_UP_REQUIRED", "Prove your second factor again, then repeat the request.", { headers });
}

const shown = ({ createdAt, lastLoginAt, ...rest }: Account) => ({
  ...rest,
  createdAt: isoTime(createdAt),
  ...(lastLoginAt !== undefined && { lastLoginAt: isoTime(lastLoginAt) }),
});
