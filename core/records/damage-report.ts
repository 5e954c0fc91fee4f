/** Reports damaged records of subscriptions: counts each, and names it in the log, once. */
import { setNewest } from "../model/bounded-map.ts";
import type { DamagedRecordError } from "../model/errors.ts";
import { parseSubscriptionKey } from "../model/keys.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Told } from "./subscription-record.ts";

/** Records remembered as reported. */
const HELD = 10_000;

export function createDamageReport({
  log,
  metrics,
}: {
  readonly log: Pick<Log, "error">;
  readonly metrics: Pick<Metrics, "count">;
}): Told {
  const reported = new Map<string, true>();

  return ({ kind, key, damage }: DamagedRecordError) => {
    const name = `${damage} ${key}`;
    if (reported.has(name)) return;
    setNewest(reported, name, true, HELD);
    metrics.count("records_damaged", { kind });
    const { keyId, id: subscriptionId } = parseSubscriptionKey(key);
    log.error("a stored record is damaged", {
      keyId,
      subscriptionId,
      kind,
      key,
      fault: damage,
      detail: DETAIL[damage],
    });
  };
}

const UNUSABLE = "each event of its key fails for it, until it is deleted and created again";
const DETAIL: Readonly<Record<DamagedRecordError["damage"], string>> = {
  checksum: UNUSABLE,
  unreadable: UNUSABLE,
  misplaced: UNUSABLE,
  missing: UNUSABLE,
  sealed:
    "nothing can be signed for it, until its secret is rotated without an overlap, or it is deleted and created again",
};
