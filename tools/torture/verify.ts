// Whether the relay kept its word: its records against the publisher's ledger and the receivers' books.
import { createHash } from "node:crypto";
import { loadConfig } from "../../config/load.ts";
import { processAround } from "../../core/cli/around.ts";
import { openStorage } from "../../core/cli/offline.ts";
import { StorageError } from "../../core/model/errors.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { survey, type Survey } from "../../core/flow/survey.ts";
import type { Delivery } from "../../core/model/delivery.ts";
import type { RelayEvent } from "../../core/model/event.ts";
import { sleep } from "./process.ts";
import type { Published } from "./publisher.ts";
import type { Receivers } from "./receivers.ts";
import { KEYS } from "./relay.ts";

export interface Verdict {
  readonly survey: Survey;
  /** Acknowledged, and not there. */
  readonly lost: number;
  /** Requests beyond one for each attempt. */
  readonly extra: number;
  readonly violations: readonly string[];
}

const REF = /"ref":"(r\d+)"/;
const sha = (text: string): string => createHash("sha256").update(text).digest("base64");

export interface Evidence {
  readonly config: string;
  readonly ledger: ReadonlyMap<string, Published>;
  readonly receivers: Receivers;
  /** Subscription → receiver. */
  readonly receiverOf: ReadonlyMap<string, number>;
  /** How often an attempt may have been cut off. */
  readonly interruptions: number;
}

const PATIENCE_MS = 20_000;

/** Read by somebody who has time: a machine that was tortured may answer late. */
function patient(storage: Storage): Storage {
  const patiently =
    <Args extends unknown[], Result>(read: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      for (const until = Date.now() + PATIENCE_MS; ;) {
        try {
          return await read(...args);
        } catch (error) {
          if (!(error instanceof StorageError) || error.fault !== "unavailable" || Date.now() > until) throw error;
          await sleep(200);
        }
      }
    };
  const { getItem, getMany, range } = storage;
  return { ...storage, getItem: patiently(getItem), getMany: patiently(getMany), range: patiently(range) };
}

/** Opens the storage as the next process would; no relay may use it. */
export async function verify(evidence: Evidence): Promise<Verdict> {
  const { config, ledger, receivers, receiverOf, interruptions } = evidence;
  const env = {
    RELAY_MASTER_KEY: KEYS.master,
    RELAY_SIGNING_KEY: KEYS.signing,
    RELAY_PUBLISH_TOKEN: KEYS.publishToken,
  };
  const { plan } = await loadConfig({ flags: { config }, env, cwd: "/" });
  const storage = await openStorage(plan, processAround());
  const violations: string[] = [...receivers.wrong];
  const stored = new Map<string, string>();

  function delivered(event: RelayEvent, delivery: Delivery): void {
    const index = receiverOf.get(delivery.subscriptionId) ?? 0;
    const entry = receivers.books[index]?.get(event.id);
    if (entry?.taken !== true) violations.push(`${event.id} is delivered, but receiver ${index} did not take it`);
    else if (entry.sha !== sha(event.body)) violations.push(`${event.id} is another one at receiver ${index}`);
  }

  function each(event: RelayEvent, deliveries: readonly (Delivery | undefined)[]): void {
    if (stored.has(event.id)) violations.push(`${event.id} is stored twice`);
    stored.set(event.id, sha(event.body));
    const published = ledger.get(REF.exec(event.body)?.[1] ?? "");
    if (published === undefined || !event.body.endsWith(`"data":${published.data}}`)) {
      violations.push(`${event.id} is not what was published`);
    } else if (!published.open && !published.accepted.has(event.id)) violations.push(`${event.id} was never asked for`);
    if (deliveries.length !== receiverOf.size / 2) violations.push(`${event.id} has ${deliveries.length} deliveries`);
    for (const delivery of deliveries) if (delivery?.status === "delivered") delivered(event, delivery);
  }

  try {
    const found = await survey(patient(storage), { each });
    for (const { key, message } of found.faults) violations.push(`${key} ${message}`);
    let lost = 0;
    for (const { ref, accepted } of ledger.values()) {
      for (const id of accepted) {
        if (stored.has(id)) continue;
        lost++;
        violations.push(`${id} (${ref}) was acknowledged and is lost`);
      }
    }
    let extra = 0;
    for (const book of receivers.books) {
      for (const [id, entry] of book) {
        if (stored.get(id) !== entry.sha) violations.push(`${id} was sent, and is not stored as it was sent`);
        for (const [turn, times] of entry.requests) {
          extra += times - 1;
          if (times - 1 > interruptions) violations.push(`${id}: attempt ${turn} was made ${times} times`);
        }
      }
    }
    return { survey: found, lost, extra, violations };
  } finally {
    await storage.dispose();
  }
}
