/** Seals second factors with a new master key while logins go on. */
import type { Keys, ScopedStorage } from "../../../core/ports/plugin.ts";
import { retryOnConflict } from "./dependencies.ts";
import { totpAad } from "./user.ts";
import type { UserBook } from "./users.ts";

/** Seals every secret again, one account at a time. Resolves to how many it sealed. */
export async function resealFactors(
  storage: ScopedStorage,
  users: UserBook,
  keys: Pick<Keys, "seal" | "open">,
): Promise<number> {
  let count = 0;
  for (const { username } of await users.list()) {
    count += await retryOnConflict(storage, async () => {
      const read = await users.read(username);
      if (read === undefined) return { changes: [], result: 0 };
      const { user } = read;
      const resealed = <T extends { readonly sealed: string }>(held: T): T => ({
        ...held,
        sealed: keys.seal(keys.open(held.sealed, totpAad(user)), totpAad(user)),
      });
      const { totp, pending } = user;
      if (totp === undefined && pending === undefined) return { changes: [], result: 0 };
      const next = { ...user, ...(totp && { totp: resealed(totp) }), ...(pending && { pending: resealed(pending) }) };
      return { changes: [users.change(read, next)], result: (totp ? 1 : 0) + (pending ? 1 : 0) };
    });
  }
  return count;
}
