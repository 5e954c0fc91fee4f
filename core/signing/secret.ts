/** Signing secrets: `whsec_` + base64 of 32 random bytes, and the two keys that are read from one. */
import { randomBytes } from "node:crypto";
import { HmacKey } from "./hmac.ts";

const PREFIX = "whsec_";

export const newSecret = (): string => PREFIX + randomBytes(32).toString("base64");

/** A secret, ready to sign with. */
export interface SigningKey {
  /** The whole secret text in UTF-8: the key of the hex signature. */
  readonly whole: HmacKey;
  /** The decoded part after `whsec_`: the key of the Standard Webhooks signature. */
  readonly decoded: HmacKey;
}

export function signingKey(secret: string): SigningKey {
  const encoded = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;
  return {
    whole: new HmacKey(Buffer.from(secret, "utf8")),
    decoded: new HmacKey(Buffer.from(encoded, "base64")),
  };
}
