/** Signs tokens with the relay's own key, read from its folder. It never makes a key. */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { makeKeys, mintToken, readSecret } from "../../core/runtime/offline.ts";
import { ACCESS_CLAIM, type Access } from "../../core/model/token.ts";
import type { SecretOption } from "../../core/model/secret-option.ts";
import type { Plan } from "../../core/ports/plan.ts";
import type { CliEnvironment } from "./environment.ts";
import { EX_CONFIG, ExitError } from "./exit.ts";

interface Claims {
  readonly mfa: boolean;
  readonly ttlSeconds: number;
  /** @default "operator" */
  readonly sub?: string | undefined;
  /** @default all */
  readonly keys?: readonly string[] | undefined;
  /** @default "manage" */
  readonly access?: Access | undefined;
}

/** Options of `jwt({ … })` that signing needs. */
interface JwtOptions {
  readonly secret?: SecretOption;
  readonly algorithms: readonly string[];
  readonly issuer: string;
  readonly audience: string | readonly string[];
  readonly typ?: string;
}

/** @throws ExitError 78 when no key that this relay trusts can be read here */
export async function signToken(plan: Plan, io: CliEnvironment, wanted: Claims): Promise<string> {
  const { auth } = plan;
  if (auth.name === "accounts") {
    const signing = plan.keys.signing ?? readKey(plan, "signing");
    // The signing key is all that a token needs.
    const keys = makeKeys({ master: randomBytes(32).toString("base64"), signing, publishToken: "-" });
    const { sub = "operator", keys: owned = "*", access, mfa, ttlSeconds } = wanted;
    return mintToken(keys, { sub, keys: owned, access, mfa, ttlMs: ttlSeconds * 1_000 }, io.clock);
  }
  const options = "options" in auth ? (auth.options as JwtOptions) : undefined;
  const algorithm = options?.algorithms.find((name) => name.startsWith("HS"));
  if (auth.name === "jwt" && options?.secret !== undefined && algorithm !== undefined) {
    const read = readSecret(options.secret, { env: io.env, configDir: plan.configDir });
    if ("problem" in read) throw new ExitError(EX_CONFIG, `auth.secret: ${read.problem}`);
    return signShared(options, read.value, algorithm, io, wanted);
  }
  const message = `tokens for ${auth.name}() are made by its issuer, not here: give --token or RELAY_TOKEN`;
  throw new ExitError(EX_CONFIG, message);
}

async function signShared(
  options: JwtOptions,
  secret: string,
  algorithm: string,
  { clock }: CliEnvironment,
  { sub = "operator", keys = ["*"], access, mfa, ttlSeconds }: Claims,
): Promise<string> {
  const { SignJWT } = await import("jose");
  const { audience, issuer, typ } = options;
  const now = Math.floor(clock.now() / 1_000);
  const factor = mfa ? { amr: ["mfa"], auth_time: now } : {};
  const may = access === "read" && { [ACCESS_CLAIM]: access };
  return new SignJWT({ api_keys: keys, ...may, ...factor })
    .setProtectedHeader({ alg: algorithm, ...(typ !== undefined && { typ }) })
    .setSubject(sub)
    .setIssuer(issuer)
    .setAudience(typeof audience === "string" ? audience : [...audience])
    .setIssuedAt(now)
    .setExpirationTime(now + ttlSeconds)
    .sign(Buffer.from(secret));
}

/** @throws ExitError 78 */
export const publishToken = (plan: Plan): string => plan.keys.publishToken ?? readKey(plan, "publish-token");

function readKey(plan: Plan, name: string): string {
  const file = join(plan.dataDir, "keys", name);
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "unreadable";
    const why =
      code === "ENOENT" ? "is not there: has the relay been started with this folder?" : `cannot be read (${code}).`;
    const message = `no token was given, and ${file} ${why} Give --token, or --data-dir.`;
    throw new ExitError(EX_CONFIG, message, { cause: error });
  }
}
