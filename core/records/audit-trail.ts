/** Writes the audit trail: who changed what, from where. A line is in the commit of the change. */
import { addressGroup } from "../lib/address.ts";
import { Tally } from "../lib/tally.ts";
import { type Actor, type AuditFacts, type AuditEntry, type AuditLine, STRANGER } from "../model/audit.ts";
import { ordinals } from "../model/ids.ts";
import { AUDIT, EXPIRY, WHOLE_RELAY } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Change, Storage } from "../ports/storage.ts";

export { RELAY } from "../model/audit.ts";
export type { Actor, AuditLine } from "../model/audit.ts";

type Now = Pick<Clock, "now">;
/** Numbers the lines of all trails by the clock of the process, so that those of one millisecond stay in their order. */
const numberings = new WeakMap<Now, () => string>();
function nextOrdinal(clock: Now): string {
  const next = numberings.get(clock) ?? ordinals(() => clock.now());
  numberings.set(clock, next);
  return next();
}

export function auditChange(keyId: string, actor: Actor, clock: Now, facts: AuditFacts): Change {
  const { action, target, result = "done", detail } = facts;
  const { sub: by, address, requestId } = actor;
  const value: AuditLine = { at: clock.now(), by, address, requestId, action, target, result, detail };
  return AUDIT.put({ keyId, ordinal: nextOrdinal(clock) }, value);
}

export interface AuditTrail {
  /** Returns the audit lines of an entry, for the commit that makes the change. */
  lines(entry: AuditEntry): readonly Change[];
  /**
   * Writes a refusal, bounded so that frequent refusals cannot fill the storage: of refusals with the same `alike`,
   * only the first of each minute; at most 20 a minute of one actor, as which all strangers count together and so do the
   * portal links of one key, so that nobody hides the refusals of others; of strangers 5 from one address; and 60 in all. The next line says how many were left out. It stays for 90 days, since anybody can be refused.
   * Never rejects.
   */
  refused(entry: AuditEntry, alike: string): Promise<void>;
}

/** An actor with more keys than this is written to the relay's own trail. */
const MOST_KEYS = 100;
const WINDOW_MS = 60_000;
/** Refusals written a minute: in all, of one actor, and of the strangers of one address. */
const LINES = 60;
const LINES_OF_ONE = 20;
const LINES_OF_STRANGER = 5;
const REFUSED_MS = 90 * 86_400_000;
/** Longest name from a client that is written. */
const LONGEST = 128;

export function createAuditTrail(deps: {
  readonly storage: Pick<Storage, "commit">;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly log: Pick<Log, "warn">;
}): AuditTrail {
  const { storage, clock, log } = deps;
  let since = Number.NEGATIVE_INFINITY;
  let skipped = 0;
  const written = new Set<string>();
  let byActor = new Tally();

  function lines({ keys, actor, ...facts }: AuditEntry): readonly Change[] {
    const own = keys === "*" || keys.length === 0 || keys.length > MOST_KEYS || keys.includes("*");
    return (own ? [WHOLE_RELAY] : keys).map((keyId) => auditChange(keyId, actor, clock, facts));
  }

  /** Returns true when this refusal is written. Counts it when it is not. */
  function admitted({ action, actor: { sub, address = "" }, keys }: AuditEntry, alike: string): boolean {
    const now = clock.monotonic();
    if (now - since >= WINDOW_MS) {
      since = now;
      written.clear();
      byActor = new Tally();
    }
    const group = addressGroup(address);
    const kind = `${action} ${alike} ${group}`;
    const actor = sub.startsWith("portal:") ? `portal of ${String(keys)}` : sub;
    const stranger = sub === STRANGER ? `${sub} ${group}` : "";
    const full = byActor.of(actor) >= LINES_OF_ONE || byActor.of(stranger) >= LINES_OF_STRANGER;
    if (written.has(kind) || written.size >= LINES || full) {
      skipped++;
      return false;
    }
    written.add(kind);
    byActor.add(actor, 1);
    if (stranger !== "") byActor.add(stranger, 1);
    return true;
  }

  return {
    lines,
    async refused(entry, alike) {
      const { target, detail } = entry;
      if (!admitted(entry, alike)) return;
      const unsaid = skipped > 0 ? `${skipped} earlier refusals are not listed` : undefined;
      skipped = 0;
      const text = [detail, unsaid].filter((one) => one !== undefined).join("; ");
      const bounded = { ...entry, result: "refused", target: target.slice(0, LONGEST) } as const;
      try {
        const refusals = lines({ ...bounded, ...(text !== "" && { detail: text }) });
        const goesAt = clock.now() + REFUSED_MS;
        const ends = refusals.map(({ key }): Change => EXPIRY.put({ at: goesAt, target: key }, ""));
        await storage.commit([...refusals, ...ends]);
      } catch (error) {
        log.warn("a refusal could not be written to the audit trail", { action: entry.action, error: String(error) });
      }
    },
  };
}
