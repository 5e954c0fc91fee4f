/** The audit trail's nouns: who did or tried what, from where, and what came of it. */

/** Who asks for a change. */
export interface Actor {
  /** The token's `sub`; `relay` for the relay itself. */
  readonly sub: string;
  /** The client's address. */
  readonly address?: string;
  readonly requestId?: string;
}

export const RELAY: Actor = { sub: "relay" };

export type AuditAction =
  | "subscription.created"
  | "subscription.updated"
  | "subscription.deleted"
  | "subscription.disabled"
  | "subscription.tested"
  | "secret.rotated"
  | "backup.taken"
  | "secrets.rekeyed"
  | "event.replayed"
  | "deliveries.replayed"
  | "account.created"
  | "account.removed"
  | "account.reset"
  | "accounts.listed"
  | "second_factor.begun"
  | "second_factor.on"
  | "login"
  | "step_up"
  | "logout";

/** What happened, without its time: that is the commit's. */
export interface AuditDeed {
  readonly action: AuditAction;
  /** Id or name of what was changed. */
  readonly target: string;
  /** @default "done" */
  readonly result?: "done" | "refused";
  /** More about it in a few words: field names, counts, reasons. Never a value that is secret. */
  readonly detail?: string;
}

export interface AuditLine extends AuditDeed {
  /** Epoch ms. */
  readonly at: number;
  readonly by: string;
  readonly address?: string;
  readonly requestId?: string;
  readonly result: "done" | "refused";
}

/** A deed as plug-ins tell of it. */
export interface AuditEntry extends AuditDeed {
  readonly actor: Actor;
  /** On whose trails it belongs: those of these keys, or, with `"*"`, the relay's own. */
  readonly keys: readonly string[] | "*";
}
