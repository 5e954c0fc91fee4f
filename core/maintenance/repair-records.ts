/** Repairs, by key prefix, what the check of stored records finds and what other records still say. */
import { EVENT, DELIVERY, FAILED, HELD, SEQUENCE, WAITING } from "../model/schema.ts";
import type { Entry, Storage } from "../ports/storage.ts";
import { putFailed } from "../records/delivery-records.ts";
import { giveTurn, makeRowAgain } from "../records/missing-rows.ts";
import { tryCommit } from "../records/transaction.ts";
import { recipientsNow } from "./verify-records.ts";

export type Repairable = Pick<Storage, "getItem" | "getMany" | "range" | "commit" | "queue">;

async function repairEvent({ key, value }: Entry, storage: Repairable): Promise<void> {
  const event = EVENT.orThrow(value, key);
  for (const sub of (await recipientsNow(event, storage)).written) await makeRowAgain(storage, event, sub);
}

async function repairDelivery({ key, value }: Entry, storage: Repairable): Promise<void> {
  const delivery = DELIVERY.orThrow(value, key);
  await makeRowAgain(storage, delivery, delivery.subscriptionId);
  const index = delivery.status === "failed" ? putFailed(delivery) : FAILED.delete(delivery);
  await tryCommit(storage, [{ op: "check", key, if: value }, index]);
}

async function repairWaiting({ key, value }: Entry, storage: Repairable): Promise<void> {
  await giveTurn(storage, { ...WAITING.id(key), keyId: WAITING.orThrow(value, key).keyId });
}

/** What is found of other kinds is ended by who claims it, or stays as it is. */
export const REPAIRS: Readonly<Record<string, (entry: Entry, storage: Repairable) => Promise<unknown>>> = {
  event: repairEvent,
  delivery: repairDelivery,
  waiting: repairWaiting,
  sequence: ({ key }, storage) => giveTurn(storage, SEQUENCE.id(key)),
  held: ({ key, value }, storage) => tryCommit(storage, [HELD.delete(HELD.id(key), value)]),
};
