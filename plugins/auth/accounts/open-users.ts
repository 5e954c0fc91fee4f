/** Opens the accounts alone: nothing is offered, judged or served, and no library is loaded. */
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { createPasswords } from "./passwords.ts";
import { createSessions } from "./sessions.ts";
import { setupCode } from "./setup-code.ts";
import { userBook } from "./users.ts";
import type { UserBook } from "./users.ts";

export function openUsers(
  ctx: PluginContext,
  passwords = createPasswords(),
  sessions = createSessions(ctx.storage, ctx.clock, 0),
): UserBook {
  const { storage, clock, keys } = ctx;
  return userBook({ storage, clock, keys, passwords, sessions, added: setupCode(ctx, undefined).withdraw });
}
