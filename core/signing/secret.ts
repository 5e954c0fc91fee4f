/** Reads signing secrets: `whsec_` + base64 of 32 random bytes, and the two keys derived from one. */
import { createSecretKey, randomBytes, type KeyObject } from "node:crypto";

const PREFIX = "whsec_";

export const newSecret = (): string => PREFIX + randomBytes(32).toString("base64");

/** A secret, ready to sign with. */
export interface SigningKey {
  /** The whole secret text in UTF-8: the key of the hex signature. */
  readonly whole: KeyObject;
  /** The decoded part after `whsec_`: the key of the Standard Webhooks signature. */
  readonly decoded: KeyObject;
}

export function signingKey(secret: string): SigningKey {
  const encoded = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;
  return {
    whole: createSecretKey(Buffer.from(secret, "utf8")),
    decoded: createSecretKey(Buffer.from(encoded, "base64")),
  };
}
