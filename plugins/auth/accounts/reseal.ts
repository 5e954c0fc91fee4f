/** Seals second factors with a new master key while logins go on. */
import { Problem } from "../../../core/model/problem.ts";
import type { Keys, ScopedStorage } from "../../../core/ports/plugin.ts";
import { retryOnConflict } from "./dependencies.ts";
import { totpAad, type User } from "./user.ts";
import type { UserBook } from "./users.ts";

/**
 * Seals every secret again, one account at a time. Resolves to how many it sealed. A factor that nobody has confirmed and
 * no key opens is dropped, since it can be begun again.
 * @throws Problem CONFLICT naming an account whose second factor no key opens
 */
export async function resealFactors(
  storage: ScopedStorage,
  users: UserBook,
  keys: Pick<Keys, "seal" | "open">,
): Promise<number> {
  function resealed<T extends { readonly sealed: string }>(held: T | undefined, user: User): T | undefined {
    try {
      return held && { ...held, sealed: keys.seal(keys.open(held.sealed, totpAad(user)), totpAad(user)) };
    } catch {
      return undefined;
    }
  }

  let count = 0;
  for (const { username } of await users.list()) {
    count += await retryOnConflict(storage, async () => {
      const read = await users.read(username);
      if (read?.user.totp === undefined && read?.user.pending === undefined) return { changes: [], result: 0 };
      const { totp: before, pending: begun, ...rest } = read.user;
      const [totp, pending] = [resealed(before, read.user), resealed(begun, read.user)];
      if (before !== undefined && totp === undefined) {
        const remedy = `Take it off with "relay users reset ${username} --totp-off", and begin again.`;
        throw new Problem("CONFLICT", `No master key opens the second factor of ${username}. ${remedy}`);
      }
      const next = { ...rest, ...(totp && { totp }), ...(pending && { pending }) };
      return { changes: [users.change(read, next)], result: (totp ? 1 : 0) + (pending ? 1 : 0) };
    });
  }
  return count;
}
