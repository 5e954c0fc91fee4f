// Erasures under torture: what was asked for and answered, and what has to hold of it from then on.
import type { Published } from "./publications.ts";
import { TIMEOUT_MS } from "./relay.ts";
import { FREEZES } from "./requests.ts";
import type { Subject } from "./subject.ts";
import type { Timeline } from "./timeline.ts";

/** Times are ms of `performance.now()`; infinity: never. */
export interface Erasure {
  /** How often it was asked for. One that was never answered may have happened or not. */
  asks: number;
  /** An answer said that it is gone, or, of a key, the audit said so. */
  doneAt: number;
}

export interface Erasures {
  /** Notes that it is asked for now. @param eventId left out: the whole key */
  ask(keyId: string, eventId?: string): Erasure;
  /** Of the event alone; undefined when nobody asked for it. */
  of(keyId: string, eventId: string): Erasure | undefined;
  /** True when somebody asked for an erasure of the event, or of its key. */
  mayBeGone(keyId: string, eventId: string): boolean;
  /** Since when it is gone for certain; infinity when that is not known. */
  goneAt(event: Published, eventId: string): number;
  /** Nobody else asks for an erasure of these keys. */
  readonly keys: ReadonlyMap<string, Erasure>;
}

export function openErasures(): Erasures {
  const events = new Map<string, Erasure>();
  const keys = new Map<string, Erasure>();
  const name = (keyId: string, eventId: string): string => `${keyId} ${eventId}`;

  return {
    keys,
    ask(keyId, eventId) {
      const [all, at] = eventId === undefined ? [keys, keyId] : [events, name(keyId, eventId)];
      const one = all.get(at) ?? { asks: 0, doneAt: Number.POSITIVE_INFINITY };
      all.set(at, one);
      one.asks++;
      return one;
    },
    of: (keyId, eventId) => events.get(name(keyId, eventId)),
    mayBeGone: (keyId, eventId) => events.has(name(keyId, eventId)) || keys.has(keyId),
    goneAt({ keyId, asks }, eventId) {
      const own = events.get(name(keyId, eventId))?.doneAt ?? Number.POSITIVE_INFINITY;
      // A request that was given up may be taken in after the erasure: then its event stays.
      const whole = asks === 1 ? keys.get(keyId)?.doneAt : undefined;
      return Math.min(own, whole ?? Number.POSITIVE_INFINITY);
    },
  };
}

/** A request that was sent before the answer may be read so much after it. */
const LAG_MS = 1_000;

export interface ErasedEvidence {
  readonly erasures: Erasures;
  readonly ledger: ReadonlyMap<string, Published>;
  readonly subjects: readonly Subject[];
  readonly timeline: Timeline;
}

/** Attempts of erased events that began after the answer, a line each: what was under way by then may end by itself. */
export function sentAfterErasure({ erasures, ledger, subjects, timeline }: ErasedEvidence): readonly string[] {
  const violations: string[] = [];
  const events = new Map(
    [...ledger.values()].flatMap((one) => [...one.accepted].map((id) => [`${one.keyId} ${id}`, one])),
  );
  for (const { keyId, number, book } of subjects) {
    for (const [id, { requests }] of book) {
      const event = events.get(`${keyId} ${id}`);
      const goneAt = event === undefined ? Number.POSITIVE_INFINITY : erasures.goneAt(event, id);
      for (const at of [...requests.values()].flat()) {
        if (at <= goneAt + TIMEOUT_MS + LAG_MS || timeline.within(goneAt - LAG_MS, at, FREEZES).length > 0) continue;
        violations.push(`${id} was sent to ${number} ${Math.round(at - goneAt)} ms after it was erased`);
      }
    }
  }
  return violations;
}

const REFS = /"ref\\*":\\*"(r\d+)/g;

/** Returns a line for each trace of an erased event in a record. */
export function leftIn(
  { key, value }: { readonly key: string; readonly value: string },
  { erasures, ledger }: Pick<ErasedEvidence, "erasures" | "ledger">,
): readonly string[] {
  const violations: string[] = [];
  for (const [, ref = ""] of value.matchAll(REFS)) {
    const event = ledger.get(ref);
    if (event === undefined || event.accepted.size === 0) continue;
    if ([...event.accepted].every((id) => erasures.goneAt(event, id) < Number.POSITIVE_INFINITY))
      violations.push(`${ref} was erased, and is in ${key}`);
  }
  return violations;
}
