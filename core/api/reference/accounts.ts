/** What is known of the routes of `accounts()`, for the documentation: the plug-in itself validates without a library. */
import { z } from "zod";
import type { ProblemCode } from "../../model/problem.ts";
import type { KnownRoute } from "./publishing.ts";

const time = z.iso.datetime();
const answer = (data: z.ZodType) => z.strictObject({ data, meta: z.strictObject({ timestamp: time }) });
const password = z.string().max(1_024).meta({ description: "New ones have 12 characters or more." });
const code = z
  .string()
  .min(1)
  .max(64)
  .meta({ description: "Of the authenticator app, or a recovery code.", examples: ["123456"] });
const username = z.string().meta({ examples: ["alice"] });
const keys = z.array(z.string()).meta({ description: 'Ids of API keys, or `["*"]` for all of them.' });

const granted = {
  token: z.string().meta({ description: "An access token, for 15 minutes unless set otherwise." }),
  expiresAt: time,
  amr: z.array(z.string()),
};
const grant = z.strictObject(granted).meta({ id: "Grant" });
const account = z.strictObject({ username, keys, createdAt: time, totp: z.boolean() }).meta({ id: "Account" });
const recoveryCodes = z.array(z.string()).meta({ description: "Shown once, here." });
const uri = z.strictObject({ uri: z.string().meta({ description: "For the authenticator app (otpauth)." }) });

const ALWAYS: readonly ProblemCode[] = [
  "ABUSE_SUSPEND",
  "RATE_LIMIT_EXCEEDED",
  "BURST_EXCEEDED",
  "INTERNAL_ERROR",
  "STORAGE_UNAVAILABLE",
  "STORAGE_FULL",
];
const BODY: readonly ProblemCode[] = [
  "INVALID_JSON",
  "VALIDATION_FAILED",
  "PAYLOAD_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
];

const bearer = [{ bearer: [] }] as const;
const tag = "Accounts";

/** With a token of a session. */
function route(
  summary: string,
  body: z.ZodType | undefined,
  reply: readonly [status: number, data?: z.ZodType],
  problems: readonly ProblemCode[],
  security: KnownRoute["security"] = bearer,
): KnownRoute {
  const [status, data] = reply;
  return {
    summary,
    tag,
    security,
    ...(body !== undefined && { body }),
    replies: [[status, data && answer(data)]],
    problems: ["UNAUTHENTICATED", ...(body === undefined ? [] : BODY), ...problems, ...ALWAYS],
  };
}
/** For tokens that own every key, with a fresh second factor. */
const admin = (
  summary: string,
  body: z.ZodType | undefined,
  reply: readonly [status: number, data?: z.ZodType],
  problems: readonly ProblemCode[] = [],
): KnownRoute => route(summary, body, reply, ["NOT_FOUND", "STEP_UP_REQUIRED", ...problems]);

export const accountRoutes: Readonly<Record<string, KnownRoute | undefined>> = {
  "GET /.well-known/jwks.json": {
    summary: "The public key of the relay's own access tokens (RFC 7517)",
    tag,
    security: [],
    type: "application/jwk-set+json",
    replies: [[200, z.strictObject({ keys: z.array(z.record(z.string(), z.string())) })]],
    problems: [],
  },
  "POST /auth/setup": route(
    "Make the first account, with the code in the data folder; there is no such path once there is one",
    z.strictObject({ code: z.string(), username, password }),
    [201, grant],
    ["NOT_FOUND"],
    [],
  ),
  "POST /auth/login": route(
    "Log in; the answer also sets the refresh cookie",
    z.strictObject({ username, password, code: code.optional() }),
    [200, grant],
    ["STEP_UP_REQUIRED", "PROVIDER_BACKPRESSURE", "CONFLICT"],
    [],
  ),
  "POST /auth/step-up": route("Show the second factor again", z.strictObject({ code }), [200, grant], ["CONFLICT"]),
  "POST /auth/refresh": route(
    "A new token by the refresh cookie, from a page of the relay itself",
    undefined,
    [200, grant],
    [],
    [],
  ),
  "POST /auth/logout": route("End the session: its tokens are dead on every node", undefined, [204], ["CONFLICT"]),
  "POST /auth/totp": route(
    "Begin a second factor; changing one needs a code of it",
    z.strictObject({ password, code: code.optional() }),
    [200, uri],
    ["CONFLICT", "PROVIDER_BACKPRESSURE"],
  ),
  "PUT /auth/totp": route(
    "Turn the second factor on with a first code",
    z.strictObject({ code }),
    [200, z.strictObject({ ...granted, recoveryCodes })],
    ["CONFLICT"],
  ),
  "GET /auth/users": admin("List the accounts", undefined, [200, z.array(account)]),
  "POST /auth/users": admin(
    "Make an account",
    z.strictObject({ username, password, keys: keys.optional() }),
    [201, z.strictObject({ username, keys })],
    ["CONFLICT", "PROVIDER_BACKPRESSURE"],
  ),
  "DELETE /auth/users/{username}": admin("Remove an account and end its sessions", undefined, [204], ["CONFLICT"]),
  "POST /auth/users/{username}/reset": admin(
    "Give an account a new password, or take its second factor off; its sessions end",
    z.strictObject({ password: password.optional(), totp: z.literal(false).optional() }),
    [204],
    ["CONFLICT", "PROVIDER_BACKPRESSURE"],
  ),
  "POST /auth/users/{username}/totp": admin(
    "Begin a second factor for an account",
    undefined,
    [200, uri],
    ["CONFLICT"],
  ),
  "PUT /auth/users/{username}/totp": admin(
    "Turn it on with a first code",
    z.strictObject({ code }),
    [200, z.strictObject({ recoveryCodes })],
    ["CONFLICT"],
  ),
};
