/** Where a delivery was left: read from storage, unless its due line says that there is nothing to read. */
import type { Delivery, Due } from "../model/delivery.ts";
import { ordinalTime } from "../model/ids.ts";
import { deliveryKey } from "../model/keys.ts";
import type { Soon } from "../model/soon.ts";
import type { Storage } from "../ports/storage.ts";
import { decodeDelivery } from "./records.ts";

/** @returns `undefined` when nothing but the accept itself has been written: never tried, never moved */
export function leftOff(line: Due, storage: Pick<Storage, "getItem">): Soon<Delivery | undefined> {
  const { subscriptionId, ordinal, attempts, cycle, dueAt } = line;
  if (attempts === 0 && cycle === 0 && dueAt === ordinalTime(ordinal)) return undefined;
  return storage
    .getItem(deliveryKey(subscriptionId, ordinal))
    .then((text) => (text === undefined ? undefined : decodeDelivery(text)));
}
