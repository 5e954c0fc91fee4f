/** One account as it is stored. */
import { hash } from "node:crypto";
import { isKeyId } from "../../../core/model/names.ts";
import type { Access } from "../../../core/model/token.ts";

export interface User {
  /** Never given twice, unlike the name. */
  readonly uid: string;
  readonly username: string;
  readonly password: string;
  /** Key ids, or exactly `["*"]`. */
  readonly keys: readonly string[];
  /** Absent: `"manage"`. */
  readonly access?: Access;
  readonly createdAt: number;
  /** Absent: it has not logged in since this is noted. */
  readonly lastLoginAt?: number;
  /** The second factor: its sealed secret, and the last step whose code was used. */
  readonly totp?: { readonly sealed: string; readonly lastStep: number };
  /** A second factor that has not been confirmed yet. */
  readonly pending?: { readonly sealed: string; readonly at: number };
  /** Hashes of the remaining recovery codes. */
  readonly recovery: readonly string[];
  /** How often its sessions were ended. Absent: never. */
  readonly ended?: number;
}

/** Returns the user to store with the end of its sessions: what it handed out ends with them, as its standing changes. */
export const endedOnce = (user: User): User => ({ ...user, ended: (user.ended ?? 0) + 1 });

/** Returns a text that changes when the account gets another password or other rights, or when its sessions are ended. */
export function standingOf({ uid, password, keys, access, ended }: User): string {
  const facts = [uid, password, keys, access, ...(ended === undefined ? [] : [ended])];
  return hash("sha256", JSON.stringify(facts), "base64url");
}

/** Reads an account. Of a damaged record it returns an outline: nobody can log in to it, but it can be removed. */
export function readUser(key: string, text: string): User {
  try {
    const read = JSON.parse(text) as Partial<User> | null;
    const { uid, username, password, keys, createdAt, recovery } = read ?? {};
    const whole = typeof uid === "string" && typeof password === "string" && Number.isFinite(createdAt);
    const lists = Array.isArray(keys) && Array.isArray(recovery);
    if (whole && lists && typeof username === "string" && userKey(username) === key) return read as User;
  } catch {
    // Not JSON.
  }
  const username = key.slice(userKey("").length);
  return { uid: "", username, password: "", keys: [], access: "read", createdAt: 0, recovery: [] };
}

/** Returns true for the outline of an account whose record is damaged. */
export const isDamaged = ({ uid }: User): boolean => uid === "";

/** A user with the text it was read from: a change is conditional on that text. */
export interface Read {
  readonly user: User;
  readonly text: string;
}

/** Normalises a name: names are kept in lower case. */
export const normalName = (username: string): string => username.trim().toLowerCase();
export const userKey = (username: string): string => `user:${username}`;
export const totpAad = ({ uid }: User): string => `totp:${uid}`;

const USERNAME = /^[a-z0-9][a-z0-9._@+-]{0,63}$/;

/** Returns true when an account may have that name. @param name in its normal form */
export const isUsername = (name: string): boolean => USERNAME.test(name);
export const NAME_RULE = "must be 1 to 64 of a-z 0-9 . _ @ + -, first a letter or digit";

/** Returns true for keys that an account can own. */
export const ownsKeys = (keys: readonly string[]): boolean =>
  (keys.length === 1 && keys[0] === "*") || keys.every(isKeyId);
export const KEY_RULE = 'must be ids of API keys, or just "*"';
export const RESET_RULE = "give a new password, totp: false, or access";
