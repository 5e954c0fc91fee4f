/** Reads what the judge must know of endpoints: a few reads for each that is well, and samples of what has failed. */
import { withoutAddresses } from "../lib/without-addresses.ts";
import type { Delivery } from "../model/delivery.ts";
import { unlessDamaged } from "../model/kind.ts";
import { DELIVERY, DUE, FAILED, HEALTH, ordinalOf } from "../model/schema.ts";
import type { EndpointHealth, Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Storage } from "../ports/storage.ts";
import { readTexts } from "../records/damage.ts";
import { heldOfSubscription, holdsUp } from "../records/held.ts";
import { countWaiting } from "../records/sequence-rows.ts";
import { type EndpointFacts, type FailureGroup, markOf, RATE_WAIT_MS } from "./judge.ts";

/** Lines of failed deliveries, and records of deliveries, that one answer reads, shared out over its endpoints. */
const LINES_READ = 20_000;
const RECORDS_READ = 5_000;
const MOST_LINES = 1_000;
const MOST_RECORDS = 200;
/** The newest deliveries of an endpoint that fails now: those that are tried again later are in no index of failures. */
const NEWEST = { reverse: true, limit: 20 } as const;
const AT_ONCE = 50;
/** What has failed longer ago needs no attention any more, ms. */
const RECENT_MS = 7 * 86_400_000;

export interface FactsDeps {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range"> & {
    readonly queue: Pick<Storage["queue"], "pending">;
  };
  readonly circuitBreaker: { state(subscriptionId: string): EndpointHealth };
  readonly clock: Pick<Clock, "now">;
}

/** @throws StorageError */
export async function readFacts(deps: FactsDeps, subs: readonly Subscription[]): Promise<readonly EndpointFacts[]> {
  const health = await deps.storage.getMany(subs.map(({ id }) => HEALTH.key({ subscriptionId: id })));
  const facts: EndpointFacts[] = [];
  for (let i = 0; i < subs.length; i += AT_ONCE) {
    const some = subs.slice(i, i + AT_ONCE);
    facts.push(...(await Promise.all(some.map((sub, n) => factsOf(deps, sub, health[i + n], subs.length)))));
  }
  return facts;
}

/** @param row since when it has only failed, as all nodes know it and acknowledgements name it @param among how many share the reads */
async function factsOf(
  deps: FactsDeps,
  sub: Subscription,
  row: string | undefined,
  among: number,
): Promise<EndpointFacts> {
  const known = deps.circuitBreaker.state(sub.id);
  const open = row !== undefined || known.restsUntil !== undefined;
  const health = { ...known, failingSince: Number(row) > 0 ? Number(row) : known.failingSince };
  if (sub.status === "disabled" && sub.disabledReason === undefined)
    return { sub, health, open, failed: NONE, groups: [] };
  const [{ failed, deliveries }, retried, held, backlog] = await Promise.all([
    failedOf(deps, sub.id, among),
    open || known.failures > 0 ? deps.storage.range(DELIVERY.under({ subscriptionId: sub.id }), NEWEST) : [],
    heldOf(deps, sub),
    backlogOf(deps, sub),
  ]);
  const pending = retried.flatMap(({ key, value }) => unlessDamaged(DELIVERY.read(value, key)) ?? []);
  const groups = grouped([...deliveries, ...pending.filter(({ status }) => status === "pending")]);
  return { sub, health, open, failed, groups, held, backlog };
}

const NONE = { count: 0, more: false } as const;

/** Reads the newest that have failed for good: how many, and a sample of them. */
async function failedOf({ storage, clock }: FactsDeps, subscriptionId: string, among: number) {
  const limit = Math.max(20, Math.min(MOST_LINES, Math.floor(LINES_READ / among)));
  const sample = Math.max(5, Math.min(MOST_RECORDS, Math.floor(RECORDS_READ / among)));
  const lines = await storage.range(FAILED.under({ subscriptionId }), { reverse: true, limit });
  const since = clock.now() - RECENT_MS;
  const recent = lines.filter(({ value }) => (unlessDamaged(FAILED.read(value))?.failedAt ?? 0) >= since);
  const keys = recent.slice(0, sample).map(({ key }) => DELIVERY.key({ subscriptionId, ordinal: ordinalOf(key) }));
  const texts = keys.length === 0 ? [] : await readTexts(storage, keys);
  const read = texts.flatMap((text, i) => unlessDamaged(DELIVERY.read(text, keys[i])) ?? []);
  const failed = { count: recent.length, more: recent.length === limit };
  return { failed, deliveries: read.filter(({ status }) => status === "failed") };
}

/** Groups deliveries by how their last attempt failed; the group of the newest attempt first. */
function grouped(deliveries: readonly Delivery[]): readonly FailureGroup[] {
  const groups = new Map<string, FailureGroup>();
  for (const { attempts, reason, updatedAt, eventId, ordinal } of deliveries) {
    const made = attempts.at(-1);
    if (made === undefined && reason === undefined) continue;
    const { error, statusCode, startedAt: at = updatedAt } = made ?? {};
    const detail = made === undefined ? ENDED[reason ?? ""] : made.detail && withoutAddresses(made.detail);
    const mark = markOf({ error, statusCode, detail });
    const one = { error, statusCode, detail, count: 0, first: at, last: at, example: { eventId, ordinal } };
    const known = groups.get(mark) ?? one;
    const { count, first } = known;
    groups.set(mark, { ...(at > known.last ? one : known), count: count + 1, first: Math.min(first, at) });
  }
  return [...groups.values()].toSorted((a, b) => b.last - a.last);
}
const ENDED: Readonly<Record<string, string>> = {
  subscription_disabled: "it was disabled, so nothing was sent",
  record_damaged: "a stored record is damaged",
};

async function heldOf({ storage }: FactsDeps, sub: Subscription): Promise<EndpointFacts["held"]> {
  const since = holdsUp(sub) ? (await heldOfSubscription(storage, sub.id)).map(({ row }) => row?.since ?? 0) : [];
  if (since.length === 0) return undefined;
  const waiting = await countWaiting(storage, sub.keyId, sub.id);
  return { since: Math.min(...since), newest: Math.max(...since), waiting };
}

async function backlogOf({ storage, clock }: FactsDeps, sub: Subscription): Promise<EndpointFacts["backlog"]> {
  if (sub.rateLimit === undefined) return undefined;
  const [oldest] = await storage.range(DUE.under({ subscriptionId: sub.id }), { limit: 1 });
  const since = oldest === undefined ? Infinity : DUE.id(oldest.key).dueAt;
  if (clock.now() - since < RATE_WAIT_MS) return undefined;
  return { since, waiting: await storage.queue.pending([sub.id]) };
}
