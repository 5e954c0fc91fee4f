/** Opens only the accounts, without set-up code, authentication or routes, and loads no library. */
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { createPasswords } from "./passwords.ts";
import { createSessions } from "./sessions.ts";
import { setupCode } from "./setup-code.ts";
import { userBook, type UserBook } from "./users.ts";

export function openUsers(
  ctx: PluginContext,
  passwords = createPasswords(),
  sessions = createSessions(ctx.storage, ctx.clock, 0),
): UserBook {
  const { storage, clock, keys } = ctx;
  return userBook({ storage, clock, keys, passwords, sessions, added: setupCode(ctx, undefined).withdraw });
}
