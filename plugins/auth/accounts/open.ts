/** Builds `accounts()` from its parts. */
import { createPublicKey } from "node:crypto";
import { OWN_AUDIENCE, OWN_ISSUER, OWN_TYP } from "../../../core/model/token.ts";
import type { Auth } from "../../../core/ports/auth.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Route } from "../../../core/ports/route.ts";
import { joseVerify, tokenJudge } from "../token/judge.ts";
import { enrolRoutes } from "./enrol.ts";
import { loginRoutes } from "./login.ts";
import type { AccountsDeps } from "./dependencies.ts";
import { createPasswords, type Passwords } from "./passwords.ts";
import { userAdminRoutes } from "./user-admin.ts";
import { openUsers } from "./users.ts";
import { AHEAD_MS, Sessions } from "./sessions.ts";
import { SetupCode } from "./setup-code.ts";
import { BruteForceDelay } from "./brute-force-delay.ts";
import { standingOf } from "./user.ts";
import { keySet } from "./schemas.ts";

export interface OpenOptions {
  readonly tokenMs: number;
  readonly sessionMs: number;
  readonly origin?: string;
  /** @default scrypt at its full cost */
  readonly passwords?: Passwords;
  /** Writes to the operator's terminal, where there is one. */
  readonly show?: (line: string) => void;
}

/** Longest life of tokens that `relay token` makes, ms: a day. */
const LONGEST_MS = 86_400_000;
const TOLERANCE_MS = 30_000;

export async function openAccounts(ctx: PluginContext, options: OpenOptions): Promise<Auth> {
  const { clock, keys, storage, log } = ctx;
  const { tokenMs, sessionMs, origin, show } = options;
  const jwk = keys.publicJwk();
  const key = createPublicKey({ key: { ...jwk }, format: "jwk" });
  const judge = tokenJudge({
    rule: {
      algorithms: ["EdDSA"],
      issuer: OWN_ISSUER,
      audience: [OWN_AUDIENCE],
      typ: OWN_TYP,
      maxTokenAgeMs: LONGEST_MS,
      clockToleranceMs: TOLERANCE_MS,
      // The issuer is another node of this relay: its tokens are good here too, though this clock may be behind.
      aheadMs: AHEAD_MS,
    },
    findKey: ({ kid }) => Promise.resolve(kid === jwk["kid"] ? key : undefined),
    verify: await joseVerify(),
    clock,
  });
  const passwords = options.passwords ?? createPasswords();
  const sessions = new Sessions(storage, clock, sessionMs);
  const setup = new SetupCode(ctx, show);
  const users = openUsers(ctx, passwords, sessions);

  /** Sessions are not cached, so a logout on one node counts on all of them at once. */
  const authenticate: Auth["authenticate"] = async (request) => {
    const judged = await judge(request.header("authorization"));
    if ("refused" in judged || judged.sessionId === undefined) return judged;
    const session = await sessions.find(judged.sessionId);
    return session?.username === judged.sub ? judged : { refused: "the session has ended" };
  };

  const deps: AccountsDeps = {
    ...{ storage, clock, keys, log, users, sessions, passwords, setup, authenticate, tokenMs, sessionMs },
    refused: ctx.refused,
    guess: ctx.guess,
    brake: new BruteForceDelay(clock),
    loggedInFrom: new Map<string, true>(),
    ...(origin === undefined ? {} : { origin }),
  };
  if (!(await users.any())) await setup.offer();
  const jwks: Route = {
    method: "GET",
    path: "/.well-known/jwks.json",
    describe: {
      operationId: "getTokenKeys",
      summary: "The public key of the relay's own access tokens (RFC 7517)",
      tag: "Accounts",
      answers: [{ status: 200, content: { type: "application/jwk-set+json", schema: keySet } }],
    },
    handle: () =>
      Promise.resolve({
        status: 200,
        headers: { "content-type": "application/jwk-set+json", "cache-control": "public, max-age=300" },
        body: JSON.stringify({ keys: [jwk] }),
      }),
  };
  return {
    authenticate,
    ready: () => true,
    async standing(sub) {
      const user = (await users.read(sub))?.user;
      return user && standingOf(user);
    },
    firstRun: async () => !(await users.any()),
    reseal: () => users.reseal(),
    routes: [jwks, ...loginRoutes(deps), ...enrolRoutes(deps), ...userAdminRoutes(deps)],
  };
}
