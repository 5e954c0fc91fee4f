// Checks that the relay kept its word: its records against the publisher's ledger and the receivers' books.
import { createHash } from "node:crypto";
import { loadConfig } from "../../config/load.ts";
import { processEnvironment } from "../../cli/support/environment.ts";
import { openStorage } from "../../cli/support/offline.ts";
import { StorageError } from "../../core/model/errors.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { verifyStorage, type Verification } from "../../core/maintenance/verify-storage.ts";
import type { Delivery } from "../../core/model/delivery.ts";
import type { RelayEvent } from "../../core/model/event.ts";
import { leftIn, sentAfterErasure, type Erasures } from "./erasures.ts";
import { sleep } from "./process.ts";
import type { Published } from "./publications.ts";
import { SIGNED_BEFORE_MS, type Doubt, type Receivers } from "./receivers.ts";
import { KEYS, RETRY } from "./relay.ts";
import { ENDS, FREEZES, requestsSeen, STEPS, type SeenIn } from "./requests.ts";
import { LONGEST_OVERLAP_MS, type Entry, type Subject } from "./subject.ts";

export interface Verdict {
  readonly survey: Verification;
  /** Acknowledged, and not there. */
  readonly lost: number;
  /** Due long ago, everybody being well, and not attempted. */
  readonly overdue: number;
  /** Requests beyond one for each attempt. */
  readonly extra: number;
  readonly violations: readonly string[];
}

const REF = /"ref":"(r\d+)"/;
const sha = (text: string): string => createHash("sha256").update(text).digest("base64");

export interface Evidence extends SeenIn {
  readonly config: string;
  readonly ledger: ReadonlyMap<string, Published>;
  readonly receivers: Receivers;
  readonly erasures: Erasures;
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
  const { config, ledger, receivers, erasures, subjects, timeline, leaseMs, failing } = evidence;
  const env = {
    RELAY_MASTER_KEY: KEYS.master,
    RELAY_SIGNING_KEY: KEYS.signing,
    RELAY_PUBLISH_TOKEN: KEYS.publishToken,
  };
  const { plan } = await loadConfig({ flags: { config }, env, cwd: "/" });
  const storage = await openStorage(plan, processEnvironment());
  const violations: string[] = [...receivers.wrong];
  for (const { text, from, to, rotated } of receivers.doubts) {
    if (rotated !== undefined && overlapsAnew(rotated, to)) continue;
    if (timeline.within(from - 1_000, to, FREEZES).length === 0) violations.push(text);
  }
  /** Bodies by key and event id. */
  const stored = new Map<string, string>();
  const refs = new Set<string>();
  const byId = new Map(subjects.flatMap((subject) => (subject.id === undefined ? [] : [[subject.id, subject]])));
  let overdue = 0;

  /**
   * A process that begins after the clock was set back cannot know how long ago a rotation was: it gives the whole overlap again,
   * from the first delivery that it signs on, and no longer. Where several nodes share a storage, each has its own first one.
   */
  function overlapsAnew(rotated: NonNullable<Doubt["rotated"]>, at: number): boolean {
    const stepped = timeline.within(rotated.from, rotated.to, STEPS).length > 0;
    const ended = timeline.within(rotated.to, at, ENDS).map((span) => span.from);
    if (!stepped || ended.length === 0) return false;
    if (leaseMs > 0) return true;
    const began = Math.max(...ended);
    const first = Math.min(
      ...receivers.doubts.filter((one) => one.rotated === rotated && one.to >= began).map(({ to }) => to),
    );
    return at - first <= LONGEST_OVERLAP_MS + SIGNED_BEFORE_MS;
  }

  function delivery(event: RelayEvent, one: Delivery | undefined, sub: string): void {
    const where = `${event.id} at ${byId.get(sub)?.number ?? sub}`;
    // A delivery to a subscription that was deleted is cancelled when its line is met next: nothing is to be sent.
    const waits = one === undefined || one.status === "pending";
    if (waits && byId.get(sub)?.quiet.some(({ why }) => why === "deleted") === true) return;
    if (one === undefined || one.status === "pending") {
      overdue++;
      violations.push(
        `${where} is overdue: ${one?.attempts.length ?? 0} attempts, cycle ${one?.cycle}, next at ${one?.nextAttemptAt}`,
      );
      return;
    }
    if (one.status === "failed" && one.reason === "exhausted" && one.attempts.length !== RETRY.attempts)
      violations.push(`${where} is exhausted after ${one.attempts.length} attempts`);
    const subject = byId.get(sub);
    if (subject === undefined) return;
    const entry = subject.book.get(event.id);
    const taken = entry?.taken.has(one.cycle) === true;
    if (one.status === "delivered" && !taken) violations.push(`${where} is delivered, but was not taken there`);
    if (subject === failing && one.status !== "delivered")
      violations.push(`${where} failed for good, was replayed, and is ${one.status}`);
    if (subject.stable && one.status !== "delivered" && one.reason !== "exhausted")
      violations.push(`${where} is ${one.status} (${one.reason}), and nobody asked for that`);
    for (const { number } of one.attempts)
      if (entry?.requests.has(`${one.cycle}/${number}`) !== true && one.attempts[number - 1]?.statusCode !== undefined)
        violations.push(`${where}: attempt ${one.cycle}/${number} is on record and was never made`);
  }

  function each(event: RelayEvent, deliveries: readonly (Delivery | undefined)[]): void {
    const name = `${event.keyId} ${event.id}`;
    if (stored.has(name)) violations.push(`${event.id} is stored twice`);
    stored.set(name, sha(event.body));
    const ref = REF.exec(event.body)?.[1] ?? "";
    const published = ledger.get(ref);
    if (refs.has(ref)) violations.push(`${ref} is stored twice, the second time as ${event.id}`);
    refs.add(ref);
    if (published === undefined || !event.body.endsWith(`"data":${published.data}}`)) {
      violations.push(`${event.id} is not what was published`);
    } else if (!published.open && !published.accepted.has(event.id)) violations.push(`${event.id} was never asked for`);
    // Those of a wide event stand in its snapshot; what was written of it names them.
    const wanted =
      event.wide === undefined
        ? event.subscriptionIds
        : deliveries.map((one) => one?.subscriptionId ?? "not written yet");
    const listed = new Set(wanted);
    for (const { id, keyId, type, stable } of subjects) {
      if (stable && keyId === event.keyId && type === event.type && !listed.has(id ?? ""))
        violations.push(`${event.id} does not go to ${id}`);
    }
    for (const [i, sub] of wanted.entries()) delivery(event, deliveries[i], sub);
  }

  try {
    const reader = patient(storage);
    const range: Storage["range"] = async (prefix, options) => {
      const page = await reader.range(prefix, options);
      // Every record is read once in this way.
      if (prefix === "") for (const entry of page) violations.push(...leftIn(entry, evidence));
      return page;
    };
    const found = await verifyStorage({ ...reader, range }, { each });
    for (const { key, message } of found.faults) violations.push(`${key} ${message}`);
    let lost = 0;
    for (const { ref, keyId, accepted } of ledger.values()) {
      for (const id of accepted) {
        if (stored.has(`${keyId} ${id}`) || erasures.mayBeGone(keyId, id)) continue;
        lost++;
        violations.push(`${id} (${ref}) was acknowledged and is lost`);
      }
    }
    for (const subject of subjects) {
      for (const [id, entry] of subject.book)
        if (!isStored(subject, id, entry)) violations.push(`${id} was sent, and is not stored as it was sent`);
    }
    const { extra, violations: seen } = requestsSeen(evidence);
    return { survey: found, lost, overdue, extra, violations: [...violations, ...seen, ...sentAfterErasure(evidence)] };
  } finally {
    await storage.dispose();
  }

  function isStored({ keyId }: Subject, id: string, entry: Entry): boolean {
    const sha = stored.get(`${keyId} ${id}`);
    return sha === entry.sha || (sha === undefined && erasures.mayBeGone(keyId, id));
  }
}
