/** Erasure in the simulation: what was asked to be erased, and the laws that it is gone, that nothing else is, and that the audit says so. */
import { CHECKS } from "../../core/maintenance/verify-records.ts";
import type { AuditLine } from "../../core/model/audit.ts";
import { AUDIT, ERASE_KEY, ERASING, FANOUT, SUBSCRIPTION } from "../../core/model/schema.ts";
import type { SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import type { Seen } from "./network.ts";
import type { KnownSubscription, Published } from "./oracle.ts";
import { fail } from "./violation.ts";

/** An erasure that was asked for. Times are ms of the world; infinity: never. */
export interface Erasure {
  readonly keyId: string;
  /** Left out: the whole key. */
  readonly eventId?: string;
  readonly askedAt: number;
  answeredAt: number;
  /** Of a key: when its job was seen to be over. */
  doneAt: number;
  /** Asked while another one of the key may have been under way: what it adds to that one is not known. */
  readonly repeated: boolean;
}

export interface ErasureWitness {
  readonly erasures: readonly Erasure[];
  readonly published: ReadonlyMap<string, Published>;
  readonly subscriptions: ReadonlyMap<string, KnownSubscription>;
}

const EVERY = { limit: 1_000_000 };
/** How long after the last fault an erasure may still be under way, ms. */
export const FINISHED_MS = 300_000;

/** Returns true when an event is erased; `undefined` when nobody can know. */
export function isErased(erasures: readonly Erasure[], event: Published, id: string): boolean | undefined {
  let known: boolean | undefined = false;
  for (const one of erasures) {
    if (one.keyId !== event.keyId) continue;
    if (one.eventId === id) {
      if (one.answeredAt < Infinity) return true;
      known = undefined;
    }
    if (one.eventId !== undefined) continue;
    const before = event.lastAnsweredAt < one.askedAt && !one.repeated && one.answeredAt < Infinity;
    if (before) return true;
    if (event.askedAt <= one.doneAt) known = undefined;
  }
  return known;
}

/** Returns true when an erasure of its key may delete a subscription that was asked for then. */
export const mayGo = (erasures: readonly Erasure[], keyId: string, askedAt: number): boolean =>
  erasures.some((one) => one.keyId === keyId && one.eventId === undefined && askedAt <= one.doneAt);

/** Returns true while deliveries of an event may be stored without it: they are removed in pages. */
export function isRemoving(rows: SortedMap, keyId: string, ordinal: string): boolean {
  const row = rows.get(FANOUT.key({ keyId, ordinal }));
  return row !== undefined && FANOUT.orThrow(row).state === "removing";
}

/** Notes which erasures of keys are over, and that their subscriptions have to be quiet from then on. */
export function noteDone(rows: SortedMap, now: number, { erasures, subscriptions }: ErasureWitness): void {
  for (const one of erasures) {
    if (one.eventId !== undefined || one.answeredAt === Infinity || one.doneAt < Infinity) continue;
    if (rows.get(ERASE_KEY.key({ keyId: one.keyId })) !== undefined) continue;
    one.doneAt = now;
    if (one.repeated) continue;
    for (const sub of subscriptions.values())
      if (sub.keyId === one.keyId && sub.createdAt < one.askedAt)
        sub.quiet.push({ askedAt: one.askedAt, answeredAt: now, over: Infinity });
  }
}

/** All has been well for a while: no erasure is under way any more. */
export function checkFinished(rows: SortedMap, wellMs: number): void {
  if (wellMs < FINISHED_MS) return;
  for (const prefix of [ERASING.start, ERASE_KEY.start])
    for (const { key } of rows.range(prefix, EVERY)) fail(`${key} is not finished after ${wellMs} ms`);
  for (const { key, value } of rows.range("fanout:", EVERY))
    if (FANOUT.orThrow(value).state === "removing") fail(`${key} still has deliveries after ${wellMs} ms`);
}

/** @param sent whether or not it arrived */
export function checkErased(rows: SortedMap, sent: readonly Seen[], graceMs: number, witness: ErasureWitness): void {
  const { erasures, published, subscriptions } = witness;
  if (erasures.length === 0) return;
  const gone = new Set<string>();
  for (const event of published.values()) {
    const all = [...event.accepted].every((id) => isErased(erasures, event, id) === true);
    if (event.accepted.size > 0 && all && (event.once || !event.open)) gone.add(event.ref);
  }
  for (const { key, value } of rows.range("", EVERY))
    for (const [, ref = ""] of value.matchAll(/"ref\\*":\\*"(\w+)/g))
      if (gone.has(ref)) fail(`${ref} was erased, and is in ${key}`);
  for (const one of erasures) {
    const own = auditOf(rows, one.keyId);
    if (one.eventId === undefined) {
      checkKey(rows, one, own, subscriptions);
      continue;
    }
    const said = own.filter(({ action, target }) => action === "event.erased" && target === one.eventId).length;
    if (said > 1) fail(`the audit has the erasure of ${one.eventId} ${said} times`);
    if (one.answeredAt < Infinity && said === 0) fail(`the audit has lost the erasure of ${one.eventId}`);
  }
  for (const one of sent) nothingSent(one, graceMs, witness);
}

const auditOf = (rows: SortedMap, keyId: string): readonly AuditLine[] =>
  rows.range(AUDIT.under({ keyId }), EVERY).map(({ value }) => JSON.parse(value) as AuditLine);

function checkKey(
  rows: SortedMap,
  { keyId, askedAt, answeredAt, doneAt, repeated }: Erasure,
  lines: readonly AuditLine[],
  subscriptions: ReadonlyMap<string, KnownSubscription>,
): void {
  if (answeredAt === Infinity) return;
  const own = lines.filter(({ action, target }) => action === "key.erased" && target === keyId);
  if (!own.some(({ detail }) => detail === "begun")) fail(`the audit has lost the erasure of ${keyId}`);
  if (doneAt === Infinity) fail(`the erasure of ${keyId} was asked at ${askedAt}, and is not done`);
  if (!own.some(({ detail }) => detail === "done")) fail(`the audit does not say that ${keyId} is erased`);
  if (repeated) return;
  for (const sub of subscriptions.values())
    if (
      sub.keyId === keyId &&
      sub.createdAt < askedAt &&
      rows.get(SUBSCRIPTION.key({ keyId, id: sub.id })) !== undefined
    )
      fail(`${sub.id} was made before ${keyId} was erased, and is there`);
}

/** Of what was erased, no attempt begins after the answer; of a key, none when its job is over. */
function nothingSent(one: Seen, graceMs: number, { erasures, published }: ErasureWitness): void {
  // A process that stood still between its last look and its first byte sends what was erased meanwhile.
  if (one.thawedAt === one.sentAt) return;
  const event = published.get(/"ref":"(\w+)"/.exec(one.body)?.[1] ?? "");
  if (event === undefined) return;
  for (const { keyId, eventId, askedAt, answeredAt, doneAt, repeated } of erasures) {
    if (keyId !== event.keyId) continue;
    const whole = eventId === undefined && event.lastAnsweredAt < askedAt && !repeated && answeredAt < Infinity;
    const since = eventId === one.eventId ? answeredAt : whole ? doneAt : Infinity;
    if (one.sentAt > since + graceMs)
      fail(`${one.eventId} was sent at ${one.sentAt} by ${one.node.name}, and erased at ${since}`);
  }
}

/** Fails where `relay check --data` would say something of a record. */
export async function checkData(rows: SortedMap): Promise<void> {
  const storage = {
    getItem: async (key: string) => rows.get(key),
    getMany: async (names: readonly string[]) => names.map(rows.get),
    range: async (prefix: string, options?: Parameters<SortedMap["range"]>[1]) => rows.range(prefix, options),
  };
  for (const entry of rows.range("", EVERY)) {
    const fault = await CHECKS[entry.key.slice(0, entry.key.indexOf(":"))]?.(entry, storage);
    if (fault !== undefined) fail(`${entry.key} → ${entry.value} ${fault}`);
  }
}
