/** `relay users …`: manages the accounts of `accounts()`, in the storage while no relay uses it, else through the API. */
import { randomBytes } from "node:crypto";
import { isoTime } from "../../core/lib/time.ts";
import type { Account, Users } from "../../core/ports/auth.ts";
import type { CliEnvironment } from "../support/environment.ts";
import {
  ACCESS_OPTION,
  API_OPTIONS,
  type Command,
  type Given,
  JSON_OPTION,
  type Option,
  readAccess,
} from "../support/command.ts";
import { readSecretText } from "../support/named-files.ts";
import { json, printable, printTable } from "../support/output.ts";
import { withUsers } from "../support/user-admin.ts";

const COMMON: readonly Option[] = [JSON_OPTION, ...API_OPTIONS];
const PASSWORD: Option = {
  flags: "--password <file>",
  about: "@file, - for stdin, or env:NAME (a fresh one is made and printed)",
};

const list: Command = {
  usage: "users list",
  about: "list the accounts",
  options: COMMON,
  run: (given, io) =>
    withUsers(given, io, async (users) => {
      const all = await users.list();
      if (given.flag("json")) return io.print(json(all.map(shown)));
      if (all.length === 0) return io.say("relay: there are no accounts");
      const rows = all.map((one) => [
        one.damaged === true ? `${one.username} (damaged)` : one.username,
        one.keys.join(","),
        one.access,
        one.totp ? "yes" : "no",
        shown(one).createdAt,
        shown(one).lastLoginAt ?? "never",
      ]);
      io.print(printTable(["user", "keys", "access", "second factor", "created", "last login"], rows));
    }),
};

const add: Command = {
  usage: "users add <name>",
  about: "make an account",
  options: [
    { flags: "--keys <keys>", about: "ids of the API keys it owns (all)", many: true },
    ACCESS_OPTION,
    PASSWORD,
    ...COMMON,
  ],
  examples: ["relay users add alice", 'printf %s "$PASSWORD" | relay users add alice --password -'],
  async run(given, io) {
    const [username = ""] = given.args;
    const keys = given.list("keys") ?? ["*"];
    const access = readAccess(given) ?? "manage";
    const chosen = await readPassword(given, io);
    const password = chosen ?? fresh();
    // An account may be made before the first start.
    const make = async (users: Users): Promise<void> => {
      await users.add({ username, password, keys, access });
      told(given, io, "made", username, chosen === undefined ? password : undefined);
    };
    return withUsers(given, io, make, "made");
  },
};

const remove: Command = {
  usage: "users remove <name>",
  about: "remove an account and end its sessions",
  options: COMMON,
  run: (given, io) =>
    withUsers(given, io, async (users) => {
      const [username = ""] = given.args;
      await users.remove(username);
      told(given, io, "removed", username);
    }),
};

const reset: Command = {
  usage: "users reset <name>",
  about: "change an account (a new password, unless another option says what) and end its sessions",
  options: [
    { flags: "--totp-off", about: "take its second factor off; the password stays unless one is given" },
    ACCESS_OPTION,
    PASSWORD,
    ...COMMON,
  ],
  async run(given, io) {
    const [username = ""] = given.args;
    const totpOff = given.flag("totp-off");
    const chosen = await readPassword(given, io);
    const access = readAccess(given);
    const password = chosen ?? (totpOff || access !== undefined ? undefined : fresh());
    return withUsers(given, io, async (users) => {
      await users.reset(username, {
        ...(password !== undefined && { password }),
        ...(totpOff && { totp: false as const }),
        ...(access !== undefined && { access }),
      });
      told(given, io, "reset", username, chosen === undefined ? password : undefined);
    });
  },
};

const totp: Command = {
  usage: "users totp <name>",
  about: "give an account a second factor: shows its QR code; then again with --code",
  options: [{ flags: "--code <code>", about: "the first code of the authenticator app: turns it on" }, ...COMMON],
  run: (given, io) =>
    withUsers(given, io, async (users) => {
      const [username = ""] = given.args;
      const code = given.text("code");
      if (code !== undefined) {
        const { recoveryCodes } = await users.confirmTotp(username, code);
        io.say(`relay: the second factor of ${printable(username)} is on; these codes replace it once each:`);
        io.print(given.flag("json") ? json({ username, recoveryCodes }) : recoveryCodes.join("\n"));
        return;
      }
      const { uri } = await users.beginTotp(username);
      if (given.flag("json")) return io.print(json({ username, uri }));
      if (io.stdout.isTTY) {
        const { renderUnicodeCompact } = await import("uqr");
        io.print(renderUnicodeCompact(uri, { border: 2 }));
      }
      io.print(uri);
      io.say(`relay: scan it, then: relay users totp ${printable(username)} --code <code>`);
    }),
};

const fresh = (): string => randomBytes(18).toString("base64url");
const shown = ({ createdAt, lastLoginAt, ...account }: Account) => ({
  ...account,
  createdAt: isoTime(createdAt),
  ...(lastLoginAt !== undefined && { lastLoginAt: isoTime(lastLoginAt) }),
});

/** Says on stderr what was done, and prints a generated password on stdout. */
function told(given: Given, io: CliEnvironment, done: string, username: string, password?: string): void {
  io.say(`relay: ${done} the account ${printable(username)}`);
  if (given.flag("json")) io.print(json({ username, done, password }));
  else if (password !== undefined) io.print(password);
}

async function readPassword(given: Given, io: CliEnvironment): Promise<string | undefined> {
  const from = given.text("password");
  return from && (await readSecretText("password", from, io)).replace(/\r?\n$/, "");
}

export const commands: readonly Command[] = [list, add, remove, reset, totp];
