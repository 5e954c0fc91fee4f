/** The audit trail: who changed what, from where. A line is stored in the same commit as the change it tells of. */
import { auditKey } from "../model/keys.ts";
import type { Change } from "../ports/storage.ts";

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
  | "event.replayed"
  | "deliveries.replayed"
  | "login"
  | "step_up";

export interface AuditLine {
  /** Epoch ms. */
  readonly at: number;
  readonly by: string;
  readonly address?: string;
  readonly requestId?: string;
  readonly action: AuditAction;
  /** Id of what was changed. */
  readonly target: string;
  readonly result: "done" | "refused";
  /** More about it in a few words: field names, counts, reasons. Never a value that is secret. */
  readonly detail?: string;
}

/** @param ordinal of the line's own: lines of a key sort by it */
export function auditChange(
  keyId: string,
  ordinal: string,
  actor: Actor,
  at: number,
  line: Pick<AuditLine, "action" | "target" | "detail"> & { readonly result?: AuditLine["result"] },
): Change {
  const { action, target, result = "done", detail } = line;
  const { sub: by, address, requestId } = actor;
  const value: AuditLine = { at, by, address, requestId, action, target, result, detail };
  return { op: "put", key: auditKey(keyId, ordinal), value: JSON.stringify(value) };
}
