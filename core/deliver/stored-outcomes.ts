/** Reads from stored deliveries what happened at a receiver, where a node's own memory may be out of date. */
import { deliveriesOf } from "../model/keys.ts";
import type { Storage } from "../ports/storage.ts";
import { decodeDelivery } from "../records/delivery-records.ts";

const PAGE = 200;
/** Most deliveries read, the newest first: a receiver that failed this often has failed for long enough. */
const MOST = 2_000;

/** Whether one of the newest deliveries of a subscription succeeded at `since` (epoch ms) or later, on any node. */
export async function succeededSince(
  storage: Pick<Storage, "range">,
  subscriptionId: string,
  since: number,
): Promise<boolean> {
  let after: string | undefined;
  for (let looked = 0; looked < MOST; looked += PAGE) {
    const page = await storage.range(deliveriesOf(subscriptionId), { after, limit: PAGE, reverse: true });
    if (page.some(({ value }) => isSuccess(value, since))) return true;
    if (page.length < PAGE) return false;
    after = page.at(-1)?.key;
  }
  return false;
}

/** A record that cannot be read is no evidence. */
function isSuccess(text: string, since: number): boolean {
  try {
    const { status, updatedAt } = decodeDelivery(text);
    return status === "delivered" && updatedAt >= since;
  } catch {
    return false;
  }
}
