/** Ends in the simulation: a replay finds what a list shows as failed, and nothing waits behind what has ended. */
import { FAILED, isFanoutQueue, SUBSCRIPTION, DUE, WAITING } from "../../core/model/schema.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import { endedBy } from "../../core/records/ended-by.ts";
import type { DeliveryPath } from "../../core/runtime/compose/path.ts";
import type { SortedMap } from "../../plugins/storage/embedded/sorted-map.ts";
import { fail } from "./violation.ts";

const EVERY = { limit: 1_000_000 };

/** The ordinals of what the list of a subscription shows as failed. */
async function failedAt({ history }: DeliveryPath, sub: Subscription): Promise<readonly string[]> {
  const ordinals: string[] = [];
  for (let after: string | undefined; ;) {
    const { items, next } = await history.deliveries(sub, "failed", { after, limit: 200 });
    ordinals.push(...items.map(({ delivery }) => delivery.ordinal));
    if (next === undefined) return ordinals;
    after = next;
  }
}

/**
 * A replay of all matches what the list shows as failed, but for attempts under way. Says nothing when something has
 * changed meanwhile.
 */
export async function matches(parts: DeliveryPath, sub: Subscription): Promise<void> {
  const { storage, replay, subscriptionCache } = parts;
  const before = await failedAt(parts, sub);
  const { matched } = await replay.failed({ subscription: sub, limit: 1_000_000, perSecond: 1, dryRun: true });
  const left = await storage.getMany(before.map((ordinal) => FAILED.key({ subscriptionId: sub.id, ordinal })));
  const after = await failedAt(parts, sub);
  const now = await subscriptionCache.get(sub.keyId, sub.id);
  if (after.join() !== before.join() || now?.generation !== sub.generation) return;
  const missing = before.filter((_, i) => left[i] === undefined);
  if (matched !== before.length - missing.length)
    fail(
      `${before.length} have failed at ${sub.id}, ${missing.length} of them are under way, a replay matches ${matched}`,
    );
  // Others may hold them.
  if (storage.nodes === undefined && missing.length > (await storage.queue.depth()).leased)
    fail(`${missing.join(" ")} have failed at ${sub.id}, and a replay passes them over`);
}

/** After the last attempt under way is over, what has ended is looked after within this, ms. */
const FOLLOWS_MS = 75_000;

/**
 * Nothing that has ended stays pending, least of all at the head of a sequence.
 * @param met when a row was first seen to say otherwise; the check fills it
 * @param leaseMs how long a dead node may hold it
 */
export function checkEnded(rows: SortedMap, now: number, met: Map<string, number>, leaseMs: number): void {
  for (const prefix of ["due:", "waiting:"])
    for (const { key, value } of rows.range(prefix, EVERY)) {
      const { subscriptionId, keyId, generation } =
        prefix === "due:" ? DUE.orThrow(value, key) : WAITING.orThrow(value, key);
      if (isFanoutQueue(subscriptionId)) continue;
      const own = SUBSCRIPTION.key({ keyId, id: subscriptionId });
      const text = rows.get(own);
      if (text === undefined || endedBy(SUBSCRIPTION.orThrow(text, own), generation) === undefined) continue;
      const since = met.get(key) ?? now;
      met.set(key, since);
      if (now - since > FOLLOWS_MS + leaseMs)
        fail(`${key} → ${value} has ended, and is still pending after ${now - since} ms`);
    }
}
