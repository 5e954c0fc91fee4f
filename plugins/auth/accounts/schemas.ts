/** Schemas of `/auth` requests and answers: they validate, type and document them. */
import { z } from "zod";
import { LONGEST_PASSWORD, SHORTEST_PASSWORD } from "./passwords.ts";
import { isUsername, KEY_RULE, NAME_RULE, normalName, ownsKeys, RESET_RULE } from "./user.ts";

const missingOr =
  (message: string) =>
  ({ input }: { readonly input?: unknown }): string =>
    input === undefined ? "is missing" : message;

const text = (min: number, max: number) => {
  const length = `must be ${min} to ${max} characters long`;
  return z
    .string({ error: missingOr("must be text") })
    .min(min, length)
    .max(max, length);
};
/** @param id the name of the schema in the document, where nothing is added to it */
const body = <Shape extends z.core.$ZodLooseShape>(id: string | undefined, shape: Shape) => {
  const schema = z.strictObject(shape, { error: "must be an object" });
  return id === undefined ? schema : schema.meta({ id });
};

const code = text(1, 64).meta({
  description: "Of the authenticator app, or a recovery code.",
  examples: ["123456"],
});
const password = text(1, LONGEST_PASSWORD);
const newPassword = text(SHORTEST_PASSWORD, LONGEST_PASSWORD);
const username = text(1, 256).meta({ examples: ["alice"] });
const newUsername = text(1, 256)
  .refine((name) => isUsername(normalName(name)), NAME_RULE)
  .meta({
    examples: ["alice"],
    pattern: "^\\s*[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}\\s*$",
    description: "Kept in lower case.",
  });
const keys = z
  .array(z.string(KEY_RULE).meta({ pattern: "^(?:\\*|[A-Za-z0-9][A-Za-z0-9_:-]{0,63})$" }), {
    error: "must be a list of ids of API keys",
  })
  .max(1_000, "may be at most 1000")
  .meta({ description: 'Ids of API keys, or `["*"]` for all of them.', examples: [["key_1"]] });
const newKeys = keys.refine(ownsKeys, KEY_RULE).meta({
  description: 'Ids of API keys, or `["*"]` for all of them, which is the default.',
  examples: [["key_1"]],
});

const access = z.enum(["manage", "read"], { error: 'must be "manage" or "read"' }).meta({
  description: "`read`: every request that changes something is refused with 403.",
});

export const setupBody = body("SetupRequest", { code, username: newUsername, password: newPassword });
export const loginBody = body("LoginRequest", { username, password, code: code.optional() });
export const codeBody = body("CodeRequest", { code });
export const totpBody = body("TotpRequest", { password, code: code.optional() });
export const newUserBody = body("UserCreate", {
  username: newUsername,
  password: newPassword,
  keys: newKeys.optional(),
  access: access.optional(),
});
export const resetBody = body(undefined, {
  password: newPassword.optional(),
  totp: z.literal(false, "can only be false").optional().meta({ description: "Takes the second factor off." }),
  access: access.optional(),
})
  .refine((given) => Object.values(given).some((value) => value !== undefined), RESET_RULE)
  .meta({ id: "UserReset", minProperties: 1 });

const time = z.iso.datetime();
const granted = {
  token: z.string().meta({ description: "An access token, for 15 minutes unless set otherwise." }),
  expiresAt: time,
  amr: z.array(z.string()),
};
const recoveryCodes = z.array(z.string()).meta({ description: "Shown once, here." });

export const grant = z.strictObject(granted).meta({ id: "Grant" });
export const grantWithCodes = z.strictObject({ ...granted, recoveryCodes }).meta({ id: "GrantWithCodes" });
export const codesOnly = z.strictObject({ recoveryCodes }).meta({ id: "RecoveryCodes" });
export const otpauth = z
  .strictObject({ uri: z.string().meta({ description: "For the authenticator app (otpauth)." }) })
  .meta({ id: "TotpUri" });
export const account = z
  .strictObject({
    username: z.string(),
    keys,
    access,
    createdAt: time,
    lastLoginAt: time.optional(),
    totp: z.boolean(),
    damaged: z.literal(true).optional().describe("Its stored record is damaged: remove it, and add it again"),
  })
  .meta({ id: "Account" });
export const newAccount = z.strictObject({ username: z.string(), keys, access }).meta({ id: "NewAccount" });
export const keySet = z.strictObject({ keys: z.array(z.record(z.string(), z.string())) }).meta({ id: "TokenKeys" });
