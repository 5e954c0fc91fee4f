/** The nouns of the audit trail: who did or tried what, from where, and with which result. */

/** The author of a change. */
export interface Actor {
  /** The token's `sub`; `relay` for the relay itself. */
  readonly sub: string;
  /** The client's address. */
  readonly address?: string;
  readonly requestId?: string;
}

export const RELAY: Actor = { sub: "relay" };
/** The author of what somebody tried who has shown to be nobody. */
export const STRANGER = "unknown account";

export const AUDIT_ACTIONS = [
  "subscription.created",
  "subscription.updated",
  "subscription.deleted",
  "subscription.disabled",
  "subscription.tested",
  "secret.rotated",
  "backup.taken",
  "secrets.rekeyed",
  "event.published",
  "event.replayed",
  "event.erased",
  "key.erased",
  "delivery.skipped",
  "delivery.tried",
  "delivery.cancelled",
  "portal_link.created",
  "portal_links.revoked",
  "deliveries.replayed",
  "attention.acknowledged",
  "account.created",
  "account.removed",
  "account.reset",
  "accounts.listed",
  /** Asked for what the caller's role or link does not allow. */
  "access",
  "second_factor.begun",
  "second_factor.on",
  "login",
  "step_up",
  "logout",
] as const;

export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** Tells what happened. The time is missing here, because the commit sets it. */
export interface AuditFacts {
  readonly action: AuditAction;
  /** Id or name of the changed thing. */
  readonly target: string;
  /** @default "done" */
  readonly result?: "done" | "refused";
  /** More in a few words: field names, counts, reasons. Never a secret value. */
  readonly detail?: string;
}

export interface AuditLine extends AuditFacts {
  /** Epoch ms. */
  readonly at: number;
  readonly by: string;
  readonly address?: string;
  readonly requestId?: string;
  readonly result: "done" | "refused";
}

/** An audit entry as plug-ins pass it in. */
export interface AuditEntry extends AuditFacts {
  readonly actor: Actor;
  /** The trails that it belongs to: those of these keys, or, with `"*"`, the relay's own. */
  readonly keys: readonly string[] | "*";
}
