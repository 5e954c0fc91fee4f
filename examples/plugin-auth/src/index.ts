/** Takes tokens that carry their claims, signed with a shared secret. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { isSecretOption } from "relaybox";
import type { Auth, Plugin, SecretOption } from "relaybox";
import { z } from "zod";

export interface Options {
  /** At least 16 characters. */
  readonly secret: SecretOption;
}

const schema = z.strictObject({ secret: z.custom<SecretOption>(isSecretOption, "must be text, or secretFrom(…)") });

/** Every problem of the options, with its path. */
function problemsOf(options: unknown): { path: string; message: string }[] {
  const { error } = schema.safeParse(options);
  return (error?.issues ?? []).map(({ path, message }) => ({ path: path.join("."), message }));
}

const claims = z.object({
  sub: z.string().min(1),
  keys: z.union([z.literal("*"), z.array(z.string())]),
  /** Epoch ms. */
  expiresAt: z.number(),
});
export type Claims = z.infer<typeof claims>;

const sign = (text: string, secret: string): string => createHmac("sha256", secret).update(text).digest("base64url");

/** Makes a token. */
export function issue(given: Claims, secret: string): string {
  const text = Buffer.from(JSON.stringify(given)).toString("base64url");
  return `v1.${text}.${sign(text, secret)}`;
}

export function myAuth(options: Options): Plugin<"auth", Auth> {
  const problems = problemsOf(options);
  return {
    kind: "auth",
    name: "my-auth",
    problems,
    secrets: problems.length === 0 ? { secret: options.secret } : {},
    setup({ secret, clock }) {
      const shared = secret("secret");
      return {
        ready: () => true,
        async authenticate(request) {
          const [, text = "", signature = ""] =
            /^Bearer +v1\.([\w-]{1,4096})\.([\w-]{43})$/i.exec(request.header("authorization") ?? "") ?? [];
          // The texts are compared: several of them decode to the same bytes.
          const wanted = sign(text, shared);
          if (signature.length !== wanted.length || !timingSafeEqual(Buffer.from(signature), Buffer.from(wanted)))
            return { refused: "the signature is wrong" };
          const { data } = claims.safeParse(JSON.parse(Buffer.from(text, "base64url").toString("utf8")));
          if (data === undefined) return { refused: "claims are missing" };
          if (data.expiresAt <= clock.now()) return { refused: "it has expired" };
          return { sub: data.sub, keys: data.keys, amr: [], expiresAt: data.expiresAt };
        },
      };
    },
  };
}
