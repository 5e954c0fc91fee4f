/** Using up a code: a TOTP code or a recovery code, each good for one time. */
import type { Keys } from "../../../core/ports/plugin.ts";
import { matchTotp, secretHash } from "./codes.ts";
import { totpAad } from "./users.ts";
import type { User } from "./users.ts";

/** The user with the code used up, to be stored before anything is granted; undefined when the code is not good. */
export function useCode(user: User, code: string, keys: Pick<Keys, "open">, now: number): User | undefined {
  if (user.totp === undefined) return undefined;
  const trimmed = code.trim();
  const step = matchTotp(keys.open(user.totp.sealed, totpAad(user)), trimmed, now, user.totp.lastStep);
  if (step !== undefined) return { ...user, totp: { ...user.totp, lastStep: step } };
  const used = secretHash(trimmed);
  if (!user.recovery.includes(used)) return undefined;
  return { ...user, recovery: user.recovery.filter((one) => one !== used) };
}
