/** Loads the relay's own keys, given or made at the first start, and uses them for the rooms, which never see them. */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createPrivateKey,
  createPublicKey,
  hash,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from "node:crypto";
import { join } from "node:path";
import type { JWTHeaderParameters } from "jose";
import { SignJWT } from "jose/jwt/sign";
import { StartError } from "../../model/errors.ts";
import { OWN_TYP, ownClaims, type Access } from "../../model/token.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Keys } from "../../ports/plugin.ts";
import { keyFile } from "./key-file.ts";
import { heldKeys, keyBytes, keyFolder, lineUp, MASTER } from "./master-keys.ts";

interface KeyOptions {
  readonly dataDir: string;
  /** Keys of the config or the environment; what is left out is made in `dataDir/keys` at the first start. */
  readonly given: { readonly master?: string; readonly signing?: string; readonly publishToken?: string };
  /** The storage is shared with other nodes, which must hold the same keys, so none is made. */
  readonly shared: boolean;
  /** The storage belongs to a master key already: none is made, as a new one could open nothing. @default false */
  readonly claimed?: boolean;
  /** Master keys of the past (32 bytes, base64) that may still open what they sealed, until everything is sealed by the present one. */
  readonly older?: readonly string[] | undefined;
}

export interface RelayKeys extends Keys {
  /** The token that `http()` takes when the config names no tokens. */
  readonly publishToken: string;
  /** Identifies the master key without revealing anything about it. */
  readonly masterFingerprint: string;
  /** Of the keys that may still open what they sealed. */
  readonly olderFingerprints: readonly string[];
  /** Seals everything with this key from now on; what the earlier keys sealed can still be opened. */
  adopt(master: string): void;
  /** The id of the signing key, as it stands in tokens and the JWKS. */
  readonly keyId: string;
  /** True when the present master key sealed the text; otherwise it is to be sealed again. @throws as `open` */
  isCurrent(sealed: string, aad: string): boolean;
  /** 32 bytes for one purpose (cursors, …) that reveal nothing about the master key. */
  derive(purpose: string): Buffer;
}

interface LoadedKeys {
  readonly keys: RelayKeys;
  /** Files that this start has made, by path: to be shown once. */
  readonly made: readonly string[];
}

const FORMAT = "v1.";
const [IV, TAG] = [12, 16];
/** PKCS #8 of an Ed25519 key is this and its 32 bytes (RFC 8410). */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");
const VISIBLE = /^[\x21-\x7e]{1,4096}$/;

/**
 * Reads, checks or makes the three keys. Several processes may start at once: all end up with the same keys.
 * @throws StartError 78 naming every key that is missing or wrong, or the file that can be neither read nor made
 */
export async function loadKeys(options: KeyOptions): Promise<LoadedKeys> {
  const { dataDir, given, shared } = options;
  const wrong: string[] = [];
  const want = (what: string, text: string | undefined, isGood: (text: string) => boolean, rule: string): void => {
    if (text === undefined) {
      if (shared) wrong.push(`${what} must be given, because the storage is shared with other nodes`);
    } else if (!isGood(text)) wrong.push(`${what} ${rule}`);
  };
  const isKey = (text: string): boolean => keyBytes(text) !== undefined;
  want("the master key (RELAY_MASTER_KEY)", given.master, isKey, "must be 32 bytes in base64");
  want("the signing key (RELAY_SIGNING_KEY)", given.signing, isKey, "must be 32 bytes in base64");
  const isToken = (text: string): boolean => VISIBLE.test(text.trim());
  want("the publish token (RELAY_PUBLISH_TOKEN)", given.publishToken, isToken, "must be visible ASCII, not empty");
  for (const text of options.older ?? [])
    if (!isKey(text)) wrong.push("an older master key must be 32 bytes in base64");
  if (wrong.length > 0) throw new StartError(78, `${wrong.join("; ")}. \`relay keys\` prints fresh ones.`);

  const folder = keyFolder(dataDir);
  const made: string[] = [];
  const get = async (
    name: string,
    text: string | undefined,
    fresh: () => string,
    isGood: (text: string) => boolean,
  ) => {
    if (text !== undefined) return text.trim();
    const path = join(folder, name);
    const file = await keyFile(path, fresh);
    if (file.made) made.push(path);
    if (!isGood(file.text)) throw new StartError(78, `${path} is damaged: put it back from a backup`);
    return file.text;
  };
  const random = (): string => randomBytes(32).toString("base64");
  const held = await heldKeys(dataDir, given.master);
  if (options.claimed === true && lineUp(held).master === undefined) {
    throw new StartError(
      78,
      `this storage belongs to a master key that is not here: put ${join(folder, MASTER)} back, or give RELAY_MASTER_KEY`,
    );
  }
  // Where there is a next key, a rekey has begun, and it may have sealed records already.
  const present = held.next === undefined ? await get(MASTER, given.master, random, isKey) : held.present;
  const { master, older } = lineUp({ ...held, present }, options.older);
  const signing = await get("signing", given.signing, random, isKey);
  const freshToken = (): string => `relay_publish_${randomBytes(32).toString("base64url")}`;
  const publishToken = await get("publish-token", given.publishToken, freshToken, isToken);
  return { keys: makeKeys({ master: master as string, signing, publishToken, older }), made };
}

/** Keys from their texts (32 bytes in base64 each), without a file. */
export function makeKeys(given: {
  readonly master: string;
  readonly signing: string;
  readonly publishToken: string;
  readonly older?: readonly string[];
}): RelayKeys {
  let master = keyBytes(given.master);
  const seed = keyBytes(given.signing);
  if (master === undefined || seed === undefined) throw new StartError(78, "a key must be 32 bytes in base64");
  const older = (given.older ?? []).map(keyBytes).filter((key) => key !== undefined);
  const present = (): Buffer => master as Buffer;
  const privateKey = createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: "der", type: "pkcs8" });
  const { x } = createPublicKey(privateKey).export({ format: "jwk" }) as { x: string };
  // RFC 7638: the members of the public key in this order, hashed.
  const keyId = hash("sha256", `{"crv":"Ed25519","kty":"OKP","x":"${x}"}`, "base64url");
  const jwk = { kty: "OKP", crv: "Ed25519", x, kid: keyId, alg: "EdDSA", use: "sig" };
  return {
    publishToken: given.publishToken,
    get masterFingerprint() {
      return fingerprint(present());
    },
    get olderFingerprints() {
      return older.map(fingerprint);
    },
    adopt(text) {
      const next = keyBytes(text);
      if (next === undefined) throw new StartError(78, "a master key must be 32 bytes in base64");
      if (next.equals(present())) return;
      older.unshift(present());
      master = next;
    },
    keyId,
    seal: (plain, aad) => seal(present(), plain, aad),
    open(sealed, aad) {
      for (const key of [present(), ...older]) {
        const plain = unseal(key, sealed, aad);
        if (plain !== undefined) return plain;
      }
      throw new Error("cannot open a sealed text: it was changed, moved to another place, or sealed by another key");
    },
    isCurrent(sealed, aad) {
      if (unseal(present(), sealed, aad) !== undefined) return true;
      this.open(sealed, aad);
      return false;
    },
    derive: (purpose) => Buffer.from(hkdfSync("sha256", present(), "", `relaybox ${purpose}`, 32)),
    signToken: (claims, typ = OWN_TYP) => sign(privateKey, { alg: "EdDSA", typ, kid: keyId }, claims),
    publicJwk: () => jwk,
  };
}

const fingerprint = (key: Buffer): string =>
  createHmac("sha256", key).update("relaybox master key").digest("hex").slice(0, 32);

const sign = (
  key: KeyObject,
  header: JWTHeaderParameters,
  claims: Readonly<Record<string, unknown>>,
): Promise<string> => new SignJWT({ ...claims }).setProtectedHeader(header).sign(key);

function seal(key: Buffer, plain: string, aad: string): string {
  const iv = randomBytes(IV);
  const cipher = createCipheriv("aes-256-gcm", key, iv).setAAD(Buffer.from(aad));
  const text = Buffer.concat([cipher.update(plain, "utf8"), cipher.final()]);
  return FORMAT + Buffer.concat([iv, cipher.getAuthTag(), text]).toString("base64url");
}

function unseal(key: Buffer, sealed: string, aad: string): string | undefined {
  const raw = sealed.startsWith(FORMAT) ? Buffer.from(sealed.slice(FORMAT.length), "base64url") : Buffer.alloc(0);
  if (raw.length < IV + TAG) return undefined;
  const decipher = createDecipheriv("aes-256-gcm", key, raw.subarray(0, IV), { authTagLength: TAG });
  decipher.setAAD(Buffer.from(aad)).setAuthTag(raw.subarray(IV, IV + TAG));
  try {
    return Buffer.concat([decipher.update(raw.subarray(IV + TAG)), decipher.final()]).toString("utf8");
  } catch {
    return undefined;
  }
}

/**
 * Mints an access token of the relay's own, as `relay token` does offline. It has no session, so it ends by time alone.
 * `mfa` states that a second factor was shown just now; anyone who can read the signing key may state it.
 */
export function mintToken(
  keys: Pick<Keys, "signToken">,
  token: {
    readonly sub: string;
    readonly keys: readonly string[] | "*";
    readonly access?: Access | undefined;
    readonly mfa: boolean;
    readonly ttlMs: number;
  },
  clock: Pick<Clock, "now">,
): Promise<string> {
  const now = clock.now();
  const amr = token.mfa ? ["mfa"] : [];
  const authAt = token.mfa ? { authAt: now } : {};
  const { sub, keys: owned, access } = token;
  return keys.signToken(ownClaims({ sub, keys: owned, access, amr, ...authAt }, now, token.ttlMs));
}
