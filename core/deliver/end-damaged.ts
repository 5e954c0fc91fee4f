/** Ends a delivery whose records are damaged: it fails with a reason, unsent; what can be repaired is. */
import { type Delivery, deliveryId, type Due } from "../model/delivery.ts";
import { StorageError, type DamagedRecordError } from "../model/errors.ts";
import { unlessDamaged } from "../model/kind.ts";
import { DELIVERY, DUE, SUBSCRIPTION } from "../model/schema.ts";
import type { Subscription } from "../model/subscription.ts";
import { loadEvent, readOne, readTexts, unlessUnreadable } from "../records/damage.ts";
import { findStuck } from "../records/sequence-rows.ts";
import { everyEntry } from "../records/every-entry.ts";
import { isRemoving } from "../records/fanout-row.ts";
import { dropDue, dueOf, endedChanges, freshDelivery, putDue } from "../records/delivery-records.ts";
import { noteFault } from "./own-faults.ts";
import type { DeliveryDeps, Run } from "./run.ts";
import { settle, settleEnd, settleFailed, settleMoved } from "./settle.ts";
import { countEnd, endedBy } from "../records/ended-by.ts";

/** After so long a delivery that is being deleted is looked at again, ms. Mostly it is gone by then. */
const REMOVING_MS = 10_000;

/**
 * Ends the delivery, or repairs its due line from its record.
 * @throws the storage's own error, when the record may be readable later: the delivery goes back
 */
export async function endDamaged(error: DamagedRecordError, run: Run): Promise<void> {
  const { lease, line, deps } = run;
  const { storage, metrics, log } = deps;
  const { keyId, subscriptionId, ordinal } = line;
  if (error.cause instanceof StorageError && !noteFault(deps.faults, lease)) throw error.cause;
  if (error.damage === "missing" && (await isRemoving(storage, keyId, ordinal).catch(() => false)))
    return await storage.queue.release(lease, deps.clock.now() + REMOVING_MS);
  // A replay that changed the line after the claim makes it contradict the record, without any damage.
  const [now] = await readTexts(storage, [DUE.key(line)]);
  if (now !== DUE.write(line)) return void (await settleMoved(run));
  const detail = await end(error, run);
  metrics.count("records_damaged", { kind: error.kind });
  const who = { keyId, subscriptionId, deliveryId: deliveryId(ordinal, subscriptionId), ordinal };
  log.error("a stored record is damaged", { ...who, kind: error.kind, key: error.key, fault: error.damage, detail });
}

/** @returns what was done, in words */
async function end(error: DamagedRecordError, run: Run): Promise<string> {
  const { line, deps } = run;
  const { storage, clock } = deps;
  const { subscriptionId, ordinal } = line;
  const { keyId, sub } = await ownerOf(line, deps);
  const record = run.delivery ?? unlessDamaged(await readOne(storage, DELIVERY, line));
  if (record !== undefined && (error.kind === "due" || keyId !== line.keyId)) {
    const next = record.nextAttemptAt === undefined ? undefined : dueOf(record, record.nextAttemptAt);
    if (record.status !== "pending" || next === undefined) {
      // Its end has passed its turn on.
      await settle(run, [dropDue(line)]);
      return "the due line was dropped: its delivery has ended";
    }
    if (DUE.key(next) !== DUE.key(line) || DUE.write(next) !== DUE.write(line)) {
      await settle(run, [dropDue(line), putDue(next)], { next });
      return "the due line was rebuilt from the delivery's record";
    }
  }
  const found = await loadEvent(storage, keyId, ordinal);
  const named = (): Promise<boolean | undefined> => unlessUnreadable(deps.recipients.has(found.event, subscriptionId));
  if (record === undefined && !found.damaged && (await named()) === false) {
    await settleEnd(run, [dropDue(line)]);
    return "the due line was dropped: its event has no such delivery";
  }
  const generation = line.damaged === undefined ? line.generation : (sub?.generation ?? 0);
  const before = record ?? freshDelivery({ ...line, keyId, generation }, found.event.id);
  const ended = endedBy(sub, before.generation) ?? ({ status: "failed", reason: "record_damaged" } as const);
  const order = before.order ?? (await turnOf(keyId, line, deps));
  const over: Delivery = { ...before, ...ended, order, nextAttemptAt: undefined, updatedAt: clock.now() };
  if (ended.reason === "record_damaged" && sub !== undefined) {
    await settleFailed(run, over, sub, found.event);
  } else await settleEnd(run, endedChanges(line, over), over);
  countEnd(over, deps.metrics, deps.failed);
  return record === undefined && error.kind === "delivery"
    ? `the delivery is ${ended.status}: ${ended.reason}; its attempts are lost`
    : `the delivery is ${ended.status}: ${ended.reason}`;
}

/** Finds whose turn ends, when neither the line nor the record says it: else nothing behind it would ever go. */
async function turnOf(
  keyId: string,
  { subscriptionId, damaged }: Due,
  { storage }: Pick<DeliveryDeps, "storage">,
): Promise<Delivery["order"]> {
  if (damaged === undefined) return undefined;
  const [sequence] = await findStuck(storage, keyId, subscriptionId, { ending: true });
  return sequence === undefined ? undefined : { sequence, place: 0 };
}

/** Finds the subscription of the line and its key, which the line may state wrongly. */
async function ownerOf(
  { keyId, subscriptionId, damaged }: Due,
  { subscriptionCache, storage }: DeliveryDeps,
): Promise<{ readonly keyId: string; readonly sub: Subscription | undefined }> {
  const sub = damaged === undefined ? await subscriptionCache.get(keyId, subscriptionId) : undefined;
  if (sub !== undefined) return { keyId, sub };
  for await (const { key } of everyEntry(storage, SUBSCRIPTION.start)) {
    const { keyId: owner, id } = SUBSCRIPTION.id(key);
    if (id !== subscriptionId) continue;
    return { keyId: owner, sub: await subscriptionCache.get(owner, subscriptionId) };
  }
  return { keyId, sub: undefined };
}
