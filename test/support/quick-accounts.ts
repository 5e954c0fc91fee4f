/** `accounts()` with passwords that cost next to nothing: what scrypt costs is the business of test/plugins/accounts.test.ts. */
import type { AccountKeeper, Auth } from "../../core/ports/auth.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { accounts } from "../../plugins/auth/accounts.ts";
import { openAccounts, type OpenOptions } from "../../plugins/auth/accounts/open.ts";
import { openUsers } from "../../plugins/auth/accounts/users.ts";
import { createPasswords } from "../../plugins/auth/accounts/passwords.ts";

export function quickAccounts(options: Partial<OpenOptions> = {}): Plugin<"auth", Auth> & AccountKeeper {
  const passwords = createPasswords({ logN: 4, r: 8, p: 1 });
  return {
    ...accounts(),
    users: (ctx) => openUsers(ctx, passwords),
    setup: (ctx) => openAccounts(ctx, { tokenMs: 900_000, sessionMs: 43_200_000, passwords, ...options }),
  };
}
