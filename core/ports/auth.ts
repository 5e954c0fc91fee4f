/** The auth port tells the server who is calling. */
import type { Actor } from "../model/audit.ts";
import type { Access } from "../model/token.ts";
import type { PluginContext, RouteRequest, Routes } from "./plugin.ts";

/** An authenticated caller of the management API. */
export interface Principal {
  /** The token's `sub`: limits are counted on it, and audit lines name it. */
  readonly sub: string;
  /** Key ids it owns; `"*"` for all of them. */
  readonly keys: readonly string[] | "*";
  /** With `"read"` the server refuses every route that changes anything. @default "manage" */
  readonly access?: Access;
  readonly amr: readonly string[];
  readonly acr?: string;
  /** Epoch seconds of the last real authentication (`auth_time`). */
  readonly authTime?: number;
  /** Epoch ms at which the token ends. */
  readonly expiresAt: number;
  /** The session that the token belongs to, where the issuer keeps sessions. */
  readonly sessionId?: string;
  /** The id of the portal link that it came by: then only operations that say so are open to it. */
  readonly portal?: string;
}

/** Why a request is not authenticated. The client only ever sees `UNAUTHENTICATED`, never this text. */
export interface Refusal {
  readonly refused: string;
}

export interface Auth extends Routes {
  /**
   * Checks the `Authorization` header. Never throws, whatever a client sends.
   * @throws StorageError when the relay's storage cannot be read: the request is then answered 503, not 401
   */
  authenticate(request: RouteRequest): Promise<Principal | Refusal>;
  /** False while it cannot check tokens yet (no keys fetched): the relay is not ready. */
  ready(): boolean;
  /**
   * Returns a text that changes when the account of that name gets another password or other rights, is removed, or has
   * its sessions ended, by a logout too: what it handed out ends with that. Undefined where there is no such account.
   */
  standing?(sub: string): Promise<string | undefined>;
  /** Resolves to whether the first account does not exist yet. Only an auth plug-in that keeps accounts itself has this. */
  firstRun?(): Promise<boolean>;
  /** Seals its stored secrets with the current master key, so that an older one can go. Resolves to how many it sealed. */
  reseal?(): Promise<number>;
  dispose?(): Promise<void>;
}

/** An account as other people may see it. */
export interface Account {
  readonly username: string;
  /** Ids of the API keys it owns; `["*"]` for all of them. */
  readonly keys: readonly string[];
  readonly access: Access;
  /** True when it has a second factor. */
  readonly totp: boolean;
  /** Epoch ms. */
  readonly createdAt: number;
  /** Epoch ms of its last login; absent where there was none. */
  readonly lastLoginAt?: number;
  /** Its stored record is damaged: nobody can log in to it, and only its name is certain. Remove it, and add it again. */
  readonly damaged?: true;
}

/** An account to be made. */
export interface NewAccount {
  readonly username: string;
  readonly password: string;
  readonly keys: readonly string[];
  /** @default "manage" */
  readonly access?: Access;
}

/** An auth plug-in that keeps the accounts itself, so that the command line can manage them while no relay runs. */
export interface AccountKeeper {
  /** Opens the accounts without offering a set-up code. */
  users(ctx: PluginContext): Users;
}

/** Manages accounts. A change ends all sessions of the account, and is audited with `by` as its author. */
export interface Users {
  list(): Promise<readonly Account[]>;
  /** @throws Problem VALIDATION_FAILED, or CONFLICT when an account of that name exists */
  add(account: NewAccount, by?: Actor): Promise<void>;
  /** @throws Problem NOT_FOUND */
  remove(username: string, by?: Actor): Promise<void>;
  /**
   * Sets a new password, removes the second factor (`totp: false`), changes what the account may do, or several of them.
   * @throws Problem NOT_FOUND, VALIDATION_FAILED
   */
  reset(
    username: string,
    to: { readonly password?: string; readonly totp?: false; readonly access?: Access },
    by?: Actor,
  ): Promise<void>;
  /** Begins a second factor for an account and returns the URI that its authenticator app reads. @throws Problem NOT_FOUND */
  beginTotp(username: string, by?: Actor): Promise<{ readonly uri: string }>;
  /**
   * Turns the second factor on with a first code. Resolves to the recovery codes, which are shown only this once.
   * @throws Problem NOT_FOUND, CONFLICT when no second factor was begun, UNAUTHENTICATED when the code is wrong
   */
  confirmTotp(username: string, code: string, by?: Actor): Promise<{ readonly recoveryCodes: readonly string[] }>;
}
