/** `/auth/users`: what `relay users` does while the relay runs. For tokens that own every key, with a fresh second factor. */
import type { Actor, AuditAction } from "../../../core/model/audit.ts";
import { Problem } from "../../../core/model/problem.ts";
import { isSteppedUp, stepUpChallenge } from "../../../core/model/token.ts";
import type { Route, RouteReply, RouteRequest } from "../../../core/ports/plugin.ts";
import { readFields, reply, text } from "./login-body.ts";
import type { LoginField } from "./login-body.ts";
import { STEP_UP } from "./login.ts";
import { LONGEST_PASSWORD } from "./passwords.ts";
import { accountAndAddress, actorOf, caller } from "./dependencies.ts";
import type { AccountsDeps } from "./dependencies.ts";

const keyList: LoginField = (value) =>
  Array.isArray(value) && value.length <= 1_000 && value.every((one) => typeof one === "string")
    ? undefined
    : "must be a list of ids of API keys";
const off: LoginField = (value) => (value === false ? undefined : "can only be false");

export function userAdminRoutes(parts: AccountsDeps): readonly Route[] {
  const { users, clock, log } = parts;

  /** Others are told that there is nothing here; who may, must have shown a second factor just now. */
  async function admin(request: RouteRequest, action: AuditAction): Promise<Actor> {
    const principal = await caller(parts, request);
    if (principal.keys !== "*") throw new Problem("NOT_FOUND", "There is no such path.");
    const actor = actorOf(principal.sub, request);
    if (isSteppedUp(principal, STEP_UP, clock.now())) return actor;
    const tried = { action, target: name(request), detail: "no fresh second factor", actor, keys: "*" } as const;
    await parts.refused(tried, principal.sub);
    const headers = { "www-authenticate": stepUpChallenge(STEP_UP) };
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
    handle: (request: RouteRequest) => ReturnType<Route["handle"]>,
  ): Route => ({ method, path, limit: `${method} ${path}`, principal: accountAndAddress(parts), handle });

  return [
    route("GET", "/auth/users", async (request) => {
      await admin(request, "accounts.listed");
      const list = await users.list();
      return reply(
        list.map((account) => ({ ...account, createdAt: new Date(account.createdAt).toISOString() })),
        clock.now(),
      );
    }),
    route("POST", "/auth/users", async (request) => {
      type Body = { readonly username: string; readonly password: string; readonly keys?: readonly string[] };
      const fields = { username: text(1, 256), password: text(1, LONGEST_PASSWORD), "keys?": keyList };
      const { username, password, keys = ["*"] } = await readFields<Body>(request, fields);
      const by = await admin(request, "account.created");
      await users.add({ username, password, keys }, by);
      done(by, "account.created", username);
      return reply({ username: username.trim().toLowerCase(), keys }, clock.now(), {}, 201);
    }),
    route("DELETE", "/auth/users/{username}", async (request) => {
      const by = await admin(request, "account.removed");
      await users.remove(name(request), by);
      return done(by, "account.removed", name(request));
    }),
    route("POST", "/auth/users/{username}/reset", async (request) => {
      type Body = { readonly password?: string; readonly totp?: false };
      const body = await readFields<Body>(request, { "password?": text(1, LONGEST_PASSWORD), "totp?": off });
      const by = await admin(request, "account.reset");
      await users.reset(name(request), body, by);
      return done(by, "account.reset", name(request));
    }),
    route("POST", "/auth/users/{username}/totp", async (request) => {
      const by = await admin(request, "second_factor.begun");
      const begun = await users.beginTotp(name(request), by);
      done(by, "second_factor.begun", name(request));
      return reply(begun, clock.now());
    }),
    route("PUT", "/auth/users/{username}/totp", async (request) => {
      const body = await readFields<{ readonly code: string }>(request, { code: text(1, 64) });
      const by = await admin(request, "second_factor.on");
      const on = await users.confirmTotp(name(request), body.code, by);
      done(by, "second_factor.on", name(request));
      return reply(on, clock.now());
    }),
  ];
}
