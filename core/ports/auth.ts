/** The auth port: who is asking. */
import type { Actor } from "../model/audit.ts";
import type { PluginContext, Route, RouteRequest } from "./plugin.ts";

/** An authenticated caller of the management API. */
export interface Principal {
  /** The token's `sub`: what limits are counted on and audit lines name. */
  readonly sub: string;
  /** Key ids it owns; `"*"` for all of them. */
  readonly keys: readonly string[] | "*";
  readonly amr: readonly string[];
  readonly acr?: string;
  /** Epoch seconds of the last real authentication (`auth_time`). */
  readonly authTime?: number;
  /** Epoch ms at which the token ends. */
  readonly expiresAt: number;
  /** The session it belongs to, where the issuer keeps sessions. */
  readonly sessionId?: string;
}

/** Why a request is not authenticated: never shown to the client in more detail than `UNAUTHENTICATED`. */
export interface Refusal {
  readonly refused: string;
}

export interface Auth {
  /** Judges the `Authorization` header. Never throws for anything a client can send. */
  authenticate(request: RouteRequest): Promise<Principal | Refusal>;
  /** False while it cannot judge yet (no keys fetched): the relay is not ready. */
  ready(): boolean;
  /** Login routes and the like. */
  readonly routes?: readonly Route[];
  /** Whether the first account is still to be made: only where the relay keeps accounts itself. */
  firstRun?(): Promise<boolean>;
  /** Seals anew what it keeps sealed, so that an older master key can go. Resolves to how many texts. */
  reseal?(): Promise<number>;
  dispose?(): Promise<void>;
}

/** An account as others may see it. */
export interface Account {
  readonly username: string;
  /** Ids of the API keys it owns; `["*"]` for all of them. */
  readonly keys: readonly string[];
  /** Whether it has a second factor. */
  readonly totp: boolean;
  /** Epoch ms. */
  readonly createdAt: number;
}

/** An auth plug-in whose accounts the relay keeps itself, so that the command can manage them while no relay runs. */
export interface AccountKeeper {
  /** Opens the accounts and nothing else: no set-up code is offered. */
  users(ctx: PluginContext): Users;
}

/**
 * What an operator does with accounts. A change of one ends all its sessions, on every node, and stands on the audit trail
 * as done by `by`: the command, when it is left out.
 */
export interface Users {
  list(): Promise<readonly Account[]>;
  /** @throws Problem VALIDATION_FAILED, or CONFLICT when there is one of that name */
  add(
    account: { readonly username: string; readonly password: string; readonly keys: readonly string[] },
    by?: Actor,
  ): Promise<void>;
  /** @throws Problem NOT_FOUND */
  remove(username: string, by?: Actor): Promise<void>;
  /** A new password, or `totp: false` to take the second factor off, or both. @throws Problem NOT_FOUND, VALIDATION_FAILED */
  reset(username: string, to: { readonly password?: string; readonly totp?: false }, by?: Actor): Promise<void>;
  /** Begins a second factor for an account: what its authenticator app is shown. @throws Problem NOT_FOUND */
  beginTotp(username: string, by?: Actor): Promise<{ readonly uri: string }>;
  /**
   * Turns it on with a first code; resolves to the recovery codes, which are shown this once.
   * @throws Problem NOT_FOUND, CONFLICT when none was begun, UNAUTHENTICATED when the code is wrong
   */
  confirmTotp(username: string, code: string, by?: Actor): Promise<{ readonly recoveryCodes: readonly string[] }>;
}
