/** Opens only the accounts, without set-up code, authentication or routes, and loads no library. */
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { createPasswords } from "./passwords.ts";
import { Sessions } from "./sessions.ts";
import { SetupCode } from "./setup-code.ts";
import { UserBook } from "./users.ts";

export function openUsers(
  ctx: PluginContext,
  passwords = createPasswords(),
  sessions = new Sessions(ctx.storage, ctx.clock, 0),
): UserBook {
  const { storage, clock, keys } = ctx;
  return new UserBook({ storage, clock, keys, passwords, sessions, added: () => new SetupCode(ctx).withdraw() });
}
