/** Begins and confirms the second factor of an account, and uses up its codes, each once. */
import { Problem } from "../../../core/model/problem.ts";
import type { Keys } from "../../../core/ports/plugin.ts";
import { matchTotp, newRecoveryCodes, newTotpSecret, otpauthUri, secretHash } from "./codes.ts";
import { totpAad, type User } from "./user.ts";

/** An enrolment that is not confirmed within this time must begin again, ms. */
const PENDING_MS = 600_000;

/** Returns the user with the code used up, to be stored before anything is granted; undefined when the code is wrong. */
export function useCode(user: User, code: string, keys: Pick<Keys, "open">, now: number): User | undefined {
  if (user.totp === undefined) return undefined;
  const trimmed = code.trim();
  const step = matchTotp(keys.open(user.totp.sealed, totpAad(user)), trimmed, now, user.totp.lastStep);
  if (step !== undefined) return { ...user, totp: { ...user.totp, lastStep: step } };
  const used = secretHash(trimmed);
  if (!user.recovery.includes(used)) return undefined;
  return { ...user, recovery: user.recovery.filter((one) => one !== used) };
}

/** Returns the user with an unconfirmed second factor, and the URI for the app. The current factor stays valid. */
export function beginTotp(
  user: User,
  keys: Pick<Keys, "seal">,
  now: number,
): { readonly user: User; readonly uri: string } {
  const secret = newTotpSecret();
  const pending = { sealed: keys.seal(secret, totpAad(user)), at: now };
  return { user: { ...user, pending }, uri: otpauthUri(user.username, secret) };
}

/**
 * Returns the user with the factor on, its first code used, and its recovery codes, which are shown only this once.
 * @throws Problem CONFLICT when none was begun, UNAUTHENTICATED for a wrong code
 */
export function confirmTotp(
  user: User,
  code: string,
  keys: Pick<Keys, "open">,
  now: number,
): { readonly user: User; readonly codes: readonly string[] } {
  const { pending, ...rest } = user;
  if (pending === undefined || Math.abs(now - pending.at) > PENDING_MS)
    throw new Problem("CONFLICT", "No second factor waits to be confirmed. Begin again.");
  const step = matchTotp(keys.open(pending.sealed, totpAad(user)), code.trim(), now, -1);
  if (step === undefined) throw new Problem("UNAUTHENTICATED", "The code is wrong. Check the clock of your device.");
  const { codes, hashes } = newRecoveryCodes();
  return { user: { ...rest, totp: { sealed: pending.sealed, lastStep: step }, recovery: hashes }, codes };
}
