/** Signs deliveries with Ed25519 too, `v1a` of Standard Webhooks: receivers hold nothing that could sign. */
import { createPrivateKey, createPublicKey, hash, type KeyObject, sign } from "node:crypto";

/** A key pair of the relay that signs deliveries. */
export interface Ed25519Key {
  readonly privateKey: KeyObject;
  /** The public key as Standard Webhooks writes it: `whpk_` and 32 bytes in base64. */
  readonly publicText: string;
  /** The public key as JWK (RFC 8037). */
  readonly jwk: Readonly<Record<"kty" | "crv" | "x" | "kid" | "alg" | "use", string>>;
}

/** PKCS #8 of an Ed25519 key is this and its 32 bytes (RFC 8410). */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");

/** @param seed the 32 bytes of the private key */
export function ed25519Key(seed: Buffer): Ed25519Key {
  const privateKey = createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: "der", type: "pkcs8" });
  const { x } = createPublicKey(privateKey).export({ format: "jwk" }) as { x: string };
  // RFC 7638: the members of the public key in this order, hashed.
  const kid = hash("sha256", `{"crv":"Ed25519","kty":"OKP","x":"${x}"}`, "base64url");
  return {
    privateKey,
    publicText: `whpk_${Buffer.from(x, "base64url").toString("base64")}`,
    jwk: { kty: "OKP", crv: "Ed25519", x, kid, alg: "EdDSA", use: "sig" },
  };
}

/** Returns ` v1a,…` for each key: what follows the HMAC signatures in `webhook-signature`. */
export function ed25519Signatures(
  keys: readonly Ed25519Key[],
  id: string,
  timestamp: string,
  body: Uint8Array,
): string {
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  return keys.map(({ privateKey }) => ` v1a,${sign(null, signed, privateKey).toString("base64")}`).join("");
}
