/** Makes and checks second factors: TOTP codes (RFC 6238), each valid once, and recovery codes for a lost device. */
import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";

const STEP_MS = 30_000;
const DIGITS = 6;
/** Steps by which a device's clock may differ, either way. */
const SKEW = 1;
const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** Makes 160 random bits in base32 (RFC 4648), as authenticator apps take them. */
export const newTotpSecret = (): string => base32(randomBytes(20));

/** Builds the URI that authenticator apps read from a QR code. */
export function otpauthUri(username: string, secret: string): string {
  const label = `Relay:${encodeURIComponent(username)}`;
  return `otpauth://totp/${label}?secret=${secret}&issuer=Relay&algorithm=SHA1&digits=${DIGITS}&period=${STEP_MS / 1_000}`;
}

/** Returns the code of one step of 30 s. */
export function totpCode(secret: string, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac("sha1", fromBase32(secret)).update(counter).digest();
  const offset = (mac.at(-1) as number) & 15;
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 10 ** DIGITS).padStart(DIGITS, "0");
}

/** Returns the step of the code, later than `lastStep`; undefined when it is not a current code, or was used before. */
export function matchTotp(secret: string, code: string, now: number, lastStep: number): number | undefined {
  if (!/^\d{6}$/.test(code)) return undefined;
  const current = Math.floor(now / STEP_MS);
  let found: number | undefined;
  for (let step = current - SKEW; step <= current + SKEW; step++) {
    const same = timingSafeEqual(Buffer.from(totpCode(secret, step)), Buffer.from(code));
    if (same && step > lastStep) found ??= step;
  }
  return found;
}

/** Makes ten codes of 80 bits, and their hashes to store: random enough that a plain hash protects them. */
export function newRecoveryCodes(): { readonly codes: readonly string[]; readonly hashes: readonly string[] } {
  const codes = Array.from({ length: 10 }, () => grouped(base32(randomBytes(10))));
  return { codes, hashes: codes.map(secretHash) };
}

/** People type the codes, so case, spaces and hyphens do not matter. */
export const secretHash = (code: string): string =>
  hash("sha256", code.toUpperCase().replaceAll(/[\s-]/g, ""), "base64url");

/** `ABCD-EFGH-…` */
export const grouped = (text: string): string => (text.match(/.{1,4}/g) ?? []).join("-");

export function base32(bytes: Uint8Array): string {
  let out = "";
  let [held, bits] = [0, 0];
  for (const byte of bytes) {
    held = ((held << 8) | byte) & 0xfff;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      out += BASE32[(held >> bits) & 31];
    }
  }
  return bits === 0 ? out : out + BASE32[(held << (5 - bits)) & 31];
}

function fromBase32(text: string): Buffer {
  const bytes: number[] = [];
  let [held, bits] = [0, 0];
  for (const letter of text) {
    held = ((held << 5) | BASE32.indexOf(letter)) & 0xfff;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((held >> bits) & 255);
    }
  }
  return Buffer.from(bytes);
}
