/** What needs attention on the keys of a token, made of their figures. */
import type { Client, Schemas } from "../../core/client/index.ts";

type Glance = Schemas["SubscriptionAtAGlance"];

/** More keys are named one by one. */
const MOST_KEYS = 50;

/** @param keyId only of this one */
export async function needsAttention(client: Client, keyId: string | undefined): Promise<object> {
  const { data: keys, meta } = keyId === undefined ? await client.listApiKeys({ limit: MOST_KEYS }) : one(keyId);
  const found: object[] = [];
  for (const { id } of keys) {
    const { data } = await client.getStats({ keyId: id, range: "24h" });
    for (const sub of data.subscriptions) {
      const held = sub.ordered === true ? (await client.getOrder({ keyId: id, subscriptionId: sub.id })).data.held : [];
      const reasons = [
        ...reasonsOf(sub),
        ...held.map(({ eventId }) => `its order is held up by ${eventId ?? "an event"}`),
      ];
      const { description, url, status, lastDelivery } = sub;
      if (reasons.length > 0)
        found.push({ keyId: id, subscriptionId: sub.id, description, url, status, reasons, lastDelivery });
    }
  }
  const more = meta.nextCursor === undefined ? {} : { more: `only the first ${MOST_KEYS} keys: name others by keyId` };
  return { needsAttention: found, keysLookedAt: keys.length, ...more };
}

const one = (id: string): { data: { id: string }[]; meta: { nextCursor?: string } } => ({ data: [{ id }], meta: {} });

function reasonsOf({
  status,
  disabledReason,
  failuresInARow,
  failingSince,
  restsUntil,
  figures,
}: Glance): readonly string[] {
  const reasons: string[] = [];
  if (status === "disabled" && disabledReason !== undefined) reasons.push(`disabled by the relay: ${disabledReason}`);
  if (failuresInARow > 0)
    reasons.push(`${failuresInARow} failed attempts in a row${failingSince ? `, since ${failingSince}` : ""}`);
  if (restsUntil !== undefined) reasons.push(`down: the next attempt is at ${restsUntil}`);
  if (figures.failed > 0)
    reasons.push(`${figures.failed} deliveries failed for good within 24 hours, and can be replayed`);
  return reasons;
}
