/** Reads and changes the stored accounts: each change is conditional on what was read, and ends the account's sessions. */
import type { Actor, AuditAction, AuditEntry } from "../../../core/model/audit.ts";
import { randomId } from "../../../core/model/ids.ts";
import { ConflictError, untilCommitted } from "../../../core/model/errors.ts";
import { type FieldError, invalidFields, Problem } from "../../../core/model/problem.ts";
import type { NewAccount, Users } from "../../../core/ports/auth.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Keys, ScopedStorage } from "../../../core/ports/plugin.ts";
import type { Change } from "../../../core/ports/storage.ts";
import { beginTotp, confirmTotp } from "./factors.ts";
import { LONGEST_PASSWORD, type Passwords, SHORTEST_PASSWORD } from "./passwords.ts";
import type { Sessions } from "./sessions.ts";
import {
  isDamaged,
  isUsername,
  KEY_RULE,
  NAME_RULE,
  normalName,
  ownsKeys,
  type Read,
  readUser,
  RESET_RULE,
  type User,
  userKey,
} from "./user.ts";

const PAGE = 500;
const TRIES = 5;
/** The author of changes by `relay users` in the data folder itself. */
const COMMAND: Actor = { sub: "relay users" };
const auditEntry = (action: AuditAction, target: string, actor: Actor = COMMAND, detail?: string): AuditEntry => ({
  action,
  target,
  actor,
  keys: "*",
  ...(detail !== undefined && { detail }),
});

export interface UserBook extends Users {
  read(username: string): Promise<Read | undefined>;
  any(): Promise<boolean>;
  /** Returns the change that stores `user` if it is still as it was read. */
  change(read: Read, user: User): Change;
  /** Returns the user that `add` would store. @throws Problem VALIDATION_FAILED */
  make(wanted: NewAccount): Promise<User>;
}

interface UserDeps {
  readonly storage: ScopedStorage;
  readonly clock: Pick<Clock, "now">;
  readonly keys: Pick<Keys, "seal" | "open">;
  readonly passwords: Passwords;
  readonly sessions: Sessions;
  /** Called when an account was added. */
  readonly added: () => Promise<void>;
}

/**
 * Returns the user with its second factor on. @throws Problem CONFLICT when none was begun, UNAUTHENTICATED for a wrong
 * code
 */
export function confirmed(
  user: User,
  code: string,
  keys: Pick<Keys, "open">,
  now: number,
): { readonly user: User; readonly codes: readonly string[] } {
  const found = confirmTotp(user, code, keys, now);
  if (found === "not begun") throw new Problem("CONFLICT", "No second factor waits to be confirmed. Begin again.");
  if (found === "wrong code")
    throw new Problem("UNAUTHENTICATED", "The code is wrong. Check the clock of your device.");
  return found;
}

export function userBook({ storage, clock, keys, passwords, sessions, added }: UserDeps): UserBook {
  async function read(username: string): Promise<Read | undefined> {
    const name = normalName(username);
    const text = isUsername(name) ? await storage.getItem(userKey(name)) : undefined;
    return text === undefined ? undefined : { user: readUser(userKey(name), text), text };
  }

  async function found(username: string): Promise<Read> {
    const one = await read(username);
    if (one === undefined) throw new Problem("NOT_FOUND", "There is no such user.");
    return one;
  }

  function whole(user: User): User {
    if (!isDamaged(user)) return user;
    throw new Problem("CONFLICT", "The stored record of this account is damaged. Remove it, and add it again.");
  }

  async function make(wanted: NewAccount): Promise<User> {
    const username = normalName(wanted.username);
    const errors = [...nameErrors(username), ...passwordErrors(wanted.password), ...keyErrors(wanted.keys)];
    if (errors.length > 0) throw invalidFields(errors);
    const password = await passwords.hash(wanted.password);
    const keys = [...new Set(wanted.keys)];
    const access = wanted.access === "read" && { access: wanted.access };
    return { uid: randomId("usr"), username, password, keys, ...access, createdAt: clock.now(), recovery: [] };
  }

  /** Changes or removes a user and ends its sessions, in one commit; starts over when another change came first. */
  async function endAnd<T>(
    username: string,
    audit: AuditEntry,
    next: (user: User) => { user?: User; result: T },
  ): Promise<T> {
    return await untilCommitted(async () => {
      const one = await found(username);
      const { user, result } = next(one.user);
      const change: Change =
        user === undefined ? { op: "delete", key: userKey(one.user.username), if: one.text } : book.change(one, user);
      const entry = { ...audit, target: one.user.username };
      await storage.commit([change, ...(await sessions.endAll(one.user))], [entry]);
      return result;
    }, TRIES);
  }

  const book: UserBook = {
    read,
    make,
    any: async () => (await storage.range("user:", { limit: 1 })).length > 0,
    change: ({ text }, user) => ({ op: "put", key: userKey(user.username), value: JSON.stringify(user), if: text }),
    async list() {
      const all: User[] = [];
      let after: string | undefined;
      for (;;) {
        const page = await storage.range("user:", { limit: PAGE, ...(after === undefined ? {} : { after }) });
        all.push(...page.map(({ key, value }) => readUser(key, value)));
        if (page.length < PAGE) break;
        after = page.at(-1)?.key;
      }
      return all.map((user) => ({
        username: user.username,
        keys: user.keys,
        access: user.access ?? "manage",
        createdAt: user.createdAt,
        ...(user.lastLoginAt !== undefined && { lastLoginAt: user.lastLoginAt }),
        totp: user.totp !== undefined,
        ...(isDamaged(user) && { damaged: true }),
      }));
    },
    async add(wanted, by) {
      const user = await make(wanted);
      try {
        const change: Change = { op: "put", key: userKey(user.username), value: JSON.stringify(user), if: null };
        await storage.commit(
          [change],
          [
            auditEntry(
              "account.created",
              user.username,
              by,
              `keys ${user.keys.join(" ")}${user.access === "read" ? ", read only" : ""}`,
            ),
          ],
        );
      } catch (error) {
        if (error instanceof ConflictError) throw new Problem("CONFLICT", "There is already a user of that name.");
        throw error;
      }
      await added();
    },
    remove: (username, by) =>
      endAnd(username, auditEntry("account.removed", username, by), () => ({ result: undefined })),
    async reset(username, { password, totp, access }, by) {
      const errors = password === undefined ? [] : passwordErrors(password);
      if (password === undefined && totp === undefined && access === undefined)
        errors.push({ path: "", message: RESET_RULE });
      if (errors.length > 0) throw invalidFields(errors);
      const hash = password === undefined ? undefined : await passwords.hash(password);
      const what = [
        password === undefined ? [] : ["password"],
        totp === undefined ? [] : ["second factor off"],
        access === undefined ? [] : [`access ${access}`],
      ].flat();
      await endAnd(username, auditEntry("account.reset", username, by, what.join(", ")), (user) => {
        const { totp: factor, pending: _, recovery, access: before, ...rest } = whole(user);
        const kept = totp === undefined && factor !== undefined ? { totp: factor, recovery } : { recovery: [] };
        const may = (access ?? before) === "read" && { access: "read" as const };
        return { user: { ...rest, ...may, password: hash ?? rest.password, ...kept }, result: undefined };
      });
    },
    async beginTotp(username, by) {
      const one = await found(username);
      const { user, uri } = beginTotp(whole(one.user), keys, clock.now());
      await storage.commit([book.change(one, user)], [auditEntry("second_factor.begun", user.username, by)]);
      return { uri };
    },
    confirmTotp: (username, code, by) =>
      endAnd(username, auditEntry("second_factor.on", username, by), (before) => {
        const { user, codes } = confirmed(whole(before), code, keys, clock.now());
        return { user, result: { recoveryCodes: codes } };
      }),
  };
  return book;
}

function nameErrors(username: string): readonly FieldError[] {
  return isUsername(username) ? [] : [{ path: "username", message: NAME_RULE }];
}

function passwordErrors(password: string): FieldError[] {
  if (password.length >= SHORTEST_PASSWORD && password.length <= LONGEST_PASSWORD) return [];
  return [{ path: "password", message: `must be ${SHORTEST_PASSWORD} to ${LONGEST_PASSWORD} characters long` }];
}

function keyErrors(keys: readonly string[]): readonly FieldError[] {
  return ownsKeys(keys) ? [] : [{ path: "keys", message: KEY_RULE }];
}
