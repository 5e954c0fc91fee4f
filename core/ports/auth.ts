/** The auth port: who is asking. */
import type { Route, RouteRequest } from "./plugin.ts";

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
  dispose?(): Promise<void>;
}
