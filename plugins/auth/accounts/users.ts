/** Reads and changes the stored accounts: each change is conditional on what was read, and ends the account's sessions. */
import type { Actor, AuditAction, AuditEntry } from "../../../core/model/audit.ts";
import { randomId } from "../../../core/model/ids.ts";
import { ConflictError } from "../../../core/model/errors.ts";
import { type FieldError, invalidFields, Problem } from "../../../core/model/problem.ts";
import type { Account, NewAccount, Users } from "../../../core/ports/auth.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Keys, PluginContext, ScopedStorage } from "../../../core/ports/plugin.ts";
import type { Change } from "../../../core/ports/storage.ts";
import { beginTotp, confirmTotp } from "./factors.ts";
import { createPasswords, LONGEST_PASSWORD, type Passwords, SHORTEST_PASSWORD } from "./passwords.ts";
import { Sessions } from "./sessions.ts";
import { SetupCode } from "./setup-code.ts";
import { everyEntry, retryOnConflict } from "./stored.ts";
import {
  endedOnce,
  isDamaged,
  isUsername,
  KEY_RULE,
  NAME_RULE,
  normalName,
  ownsKeys,
  type Read,
  readUser,
  RESET_RULE,
  totpAad,
  type User,
  userKey,
} from "./user.ts";

/** The author of changes by `relay users` in the data folder itself. */
const COMMAND: Actor = { sub: "relay users" };
const auditEntry = (action: AuditAction, target: string, actor: Actor = COMMAND, detail?: string): AuditEntry => ({
  action,
  target,
  actor,
  keys: "*",
  ...(detail !== undefined && { detail }),
});

interface UserDeps {
  readonly storage: ScopedStorage;
  readonly clock: Pick<Clock, "now">;
  readonly keys: Pick<Keys, "seal" | "open">;
  readonly passwords: Passwords;
  readonly sessions: Sessions;
  /** Called when an account was added. */
  readonly added: () => Promise<void>;
}

export class UserBook implements Users {
  readonly #deps: UserDeps;

  constructor(deps: UserDeps) {
    this.#deps = deps;
  }

  async read(username: string): Promise<Read | undefined> {
    const name = normalName(username);
    const text = isUsername(name) ? await this.#deps.storage.getItem(userKey(name)) : undefined;
    return text === undefined ? undefined : { user: readUser(userKey(name), text), text };
  }

  async any(): Promise<boolean> {
    return (await this.#deps.storage.range("user:", { limit: 1 })).length > 0;
  }

  /** Returns the change that stores `user` if it is still as it was read. */
  change({ text }: Read, user: User): Change {
    return { op: "put", key: userKey(user.username), value: JSON.stringify(user), if: text };
  }

  /** Returns the user that `add` would store. @throws Problem VALIDATION_FAILED */
  async make({ username: given, password, keys, access }: NewAccount): Promise<User> {
    const username = normalName(given);
    const errors = [
      ...(isUsername(username) ? [] : [{ path: "username", message: NAME_RULE }]),
      ...passwordErrors(password),
      ...(ownsKeys(keys) ? [] : [{ path: "keys", message: KEY_RULE }]),
    ];
    if (errors.length > 0) throw invalidFields(errors);
    return {
      uid: randomId("usr"),
      username,
      password: await this.#deps.passwords.hash(password),
      keys: [...new Set(keys)],
      ...(access === "read" && { access }),
      createdAt: this.#deps.clock.now(),
      recovery: [],
    };
  }

  async list(): Promise<readonly Account[]> {
    const all: Account[] = [];
    for await (const { key, value } of everyEntry(this.#deps.storage, "user:")) {
      const user = readUser(key, value);
      const { username, keys, access = "manage", createdAt, lastLoginAt, totp } = user;
      all.push({
        ...{ username, keys, access, createdAt },
        ...(lastLoginAt !== undefined && { lastLoginAt }),
        totp: totp !== undefined,
        ...(isDamaged(user) && { damaged: true }),
      });
    }
    return all;
  }

  async add(wanted: NewAccount, by?: Actor): Promise<void> {
    const user = await this.make(wanted);
    const { username, keys, access } = user;
    const detail = `keys ${keys.join(" ")}${access === "read" ? ", read only" : ""}`;
    const change: Change = { op: "put", key: userKey(username), value: JSON.stringify(user), if: null };
    try {
      await this.#deps.storage.commit([change], [auditEntry("account.created", username, by, detail)]);
    } catch (error) {
      if (error instanceof ConflictError) throw new Problem("CONFLICT", "There is already a user of that name.");
      throw error;
    }
    await this.#deps.added();
  }

  remove(username: string, by?: Actor): Promise<void> {
    return this.#endAnd(username, auditEntry("account.removed", username, by), () => ({ result: undefined }));
  }

  async reset(username: string, { password, totp, access }: Parameters<Users["reset"]>[1], by?: Actor): Promise<void> {
    const errors = password === undefined ? [] : passwordErrors(password);
    if (password === undefined && totp === undefined && access === undefined)
      errors.push({ path: "", message: RESET_RULE });
    if (errors.length > 0) throw invalidFields(errors);
    const hash = password === undefined ? undefined : await this.#deps.passwords.hash(password);
    const what = [
      ...(password === undefined ? [] : ["password"]),
      ...(totp === undefined ? [] : ["second factor off"]),
      ...(access === undefined ? [] : [`access ${access}`]),
    ];
    await this.#endAnd(username, auditEntry("account.reset", username, by, what.join(", ")), (user) => {
      const { totp: factor, pending: _, recovery, access: before, ...rest } = whole(user);
      const kept = totp === undefined && factor !== undefined ? { totp: factor, recovery } : { recovery: [] };
      const may = (access ?? before) === "read" && { access: "read" as const };
      return { user: { ...rest, ...may, password: hash ?? rest.password, ...kept }, result: undefined };
    });
  }

  async beginTotp(username: string, by?: Actor): Promise<{ readonly uri: string }> {
    const { storage, keys, clock } = this.#deps;
    const one = await this.#found(username);
    const { user, uri } = beginTotp(whole(one.user), keys, clock.now());
    await storage.commit([this.change(one, user)], [auditEntry("second_factor.begun", user.username, by)]);
    return { uri };
  }

  confirmTotp(username: string, code: string, by?: Actor): Promise<{ readonly recoveryCodes: readonly string[] }> {
    const { keys, clock } = this.#deps;
    return this.#endAnd(username, auditEntry("second_factor.on", username, by), (before) => {
      const { user, codes } = confirmTotp(whole(before), code, keys, clock.now());
      return { user, result: { recoveryCodes: codes } };
    });
  }

  /**
   * Seals every second factor again with the newest master key, one account at a time, while logins go on. Resolves to how
   * many it sealed. A factor that nobody has confirmed and no key opens is dropped, since it can be begun again.
   * @throws Problem CONFLICT naming an account whose second factor no key opens
   */
  async reseal(): Promise<number> {
    let count = 0;
    for (const { username } of await this.list())
      count += await retryOnConflict(this.#deps.storage, async () => {
        const read = await this.read(username);
        if (read?.user.totp === undefined && read?.user.pending === undefined) return { changes: [], result: 0 };
        const { totp: before, pending: begun, ...rest } = read.user;
        const [totp, pending] = [this.#resealed(before, read.user), this.#resealed(begun, read.user)];
        if (before !== undefined && totp === undefined) {
          const remedy = `Take it off with "relay users reset ${username} --totp-off", and begin again.`;
          throw new Problem("CONFLICT", `No master key opens the second factor of ${username}. ${remedy}`);
        }
        const next = { ...rest, ...(totp && { totp }), ...(pending && { pending }) };
        return { changes: [this.change(read, next)], result: (totp ? 1 : 0) + (pending ? 1 : 0) };
      });
    return count;
  }

  #resealed<T extends { readonly sealed: string }>(held: T | undefined, user: User): T | undefined {
    const { keys } = this.#deps;
    try {
      return held && { ...held, sealed: keys.seal(keys.open(held.sealed, totpAad(user)), totpAad(user)) };
    } catch {
      return undefined;
    }
  }

  async #found(username: string): Promise<Read> {
    const one = await this.read(username);
    if (one === undefined) throw new Problem("NOT_FOUND", "There is no such user.");
    return one;
  }

  /** Changes or removes a user and ends its sessions, in one commit; starts over when another change came first. */
  #endAnd<T>(username: string, audit: AuditEntry, next: (user: User) => { user?: User; result: T }): Promise<T> {
    const { storage, sessions } = this.#deps;
    return retryOnConflict(storage, async () => {
      const one = await this.#found(username);
      const { user, result } = next(one.user);
      const target = one.user.username;
      const change: Change =
        user === undefined ? { op: "delete", key: userKey(target), if: one.text } : this.change(one, endedOnce(user));
      return { changes: [change, ...(await sessions.endAll(one.user))], audit: [{ ...audit, target }], result };
    });
  }
}

/** Opens only the accounts, without set-up code, authentication or routes, and loads no library. */
export function openUsers(
  ctx: PluginContext,
  passwords = createPasswords(),
  sessions = new Sessions(ctx.storage, ctx.clock, 0),
): UserBook {
  const { storage, clock, keys } = ctx;
  return new UserBook({ storage, clock, keys, passwords, sessions, added: () => new SetupCode(ctx).withdraw() });
}

/** @throws Problem CONFLICT for the outline of an account whose record is damaged */
function whole(user: User): User {
  if (!isDamaged(user)) return user;
  throw new Problem("CONFLICT", "The stored record of this account is damaged. Remove it, and add it again.");
}

function passwordErrors(password: string): FieldError[] {
  if (password.length >= SHORTEST_PASSWORD && password.length <= LONGEST_PASSWORD) return [];
  return [{ path: "password", message: `must be ${SHORTEST_PASSWORD} to ${LONGEST_PASSWORD} characters long` }];
}
