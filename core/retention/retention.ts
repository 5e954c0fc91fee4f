/** Deletes what has ended and is old. Pending deliveries are never deleted, failed ones only by an explicit setting. */
import { ordinalTime } from "../model/ids.ts";
import { unlessDamaged } from "../model/kind.ts";
import { API_KEY, EVENT, EXPIRY, ordinalOf, SNAPSHOT, SUBSCRIPTION } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { createPacer } from "../records/pacer.ts";
import { readTexts, unlessUnreadable } from "../records/damage.ts";
import { everyEntry } from "../records/every-entry.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { readSubscription } from "../records/subscription-record.ts";
import { createDeliveryReader } from "../records/delivery-view.ts";
import { tryCommit } from "../records/transaction.ts";
import { createRecipients, type Recipients } from "../records/recipients.ts";
import { createWideRemoval, type GoesAt, type WideRemoval } from "./remove-wide.ts";
import { createEventJudge, type StoredEvent, type RetentionVerdict, type Unreadable } from "./judge-events.ts";
import { createMarks, type Marks } from "./marks.ts";
import { keepOf, removesAny, ruleOf, youngestOf, type Keep, type RetentionOptions } from "./options.ts";
import { createCautiousNow } from "../lib/cautious-now.ts";
import { TOMBSTONE_MS } from "../model/subscription.ts";
import { createWideStatus } from "../records/wide-status.ts";

interface Retention {
  /** Judges what has become old enough since the last run. @returns how many events were deleted */
  run(options: RetentionOptions, signal: AbortSignal): Promise<number>;
}

/** Ids must be recognised as duplicates for at least a day, so nothing is deleted sooner. */
const LEAST_AGE_MS = 86_400_000;
/** Events read together, and their bytes; changes in one commit. */
const PAGE = 500;
const PAGE_BYTES = 4 * 1024 * 1024;
const COMMIT_CHANGES = 4_000;
/** A page begins after this many times the last one's duration, so that deliveries get the storage in between. */
const PACE = 2;
/** A run that is this far behind, ms, does not pause, because the disk fills meanwhile. */
const LATE_MS = 3_600_000;
/** An event that another commit changed is judged again after this, ms. */
const CONFLICT_AGAIN_MS = 3_600_000;

export function createRetention(given: {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit"> & {
    readonly queue: Pick<Storage["queue"], "add">;
  };
  readonly subscriptionCache: SubscriptionCache;
  readonly recipients?: Recipients;
  readonly clock: Clock;
  readonly log?: Pick<Log, "warn">;
  readonly metrics?: Pick<Metrics, "gauge">;
  /** All configured rules: a replayed event is judged again by each. @default the one that runs */
  readonly rules?: readonly RetentionOptions[];
}): Retention {
  const deps = { ...given, clock: { ...given.clock, now: createCautiousNow(given.clock) } };
  const { storage, clock, log, metrics, recipients = createRecipients(storage) } = deps;
  const wideStatus = createWideStatus({ storage, recipients, read: createDeliveryReader(deps) });
  const judge = createEventJudge({ ...deps, leastAgeMs: LEAST_AGE_MS });

  const goesAt =
    (keep: Keep, acceptedAt: number): GoesAt =>
    (status, endedAt) => {
      const keepMs = status === "failed" ? keep.failedAfterMs : keep.deliveredAfterMs;
      return keepMs === undefined ? undefined : Math.max(acceptedAt, endedAt) + Math.max(keepMs, LEAST_AGE_MS);
    };

  /** Commits a page's deletions together, or one by one where something changed. @returns what must be judged again */
  async function removeAll(
    page: readonly StoredEvent[],
    verdicts: readonly RetentionVerdict[],
  ): Promise<readonly StoredEvent[]> {
    const conflicts: StoredEvent[] = [];
    let batch: { readonly one: StoredEvent; readonly changes: readonly Change[] }[] = [];
    let size = 0;
    async function flush(): Promise<void> {
      if (batch.length === 0) return;
      if (
        !(await tryCommit(
          storage,
          batch.flatMap(({ changes }) => changes),
        ))
      ) {
        for (const { one, changes } of batch) if (!(await tryCommit(storage, changes))) conflicts.push(one);
      }
      batch = [];
      size = 0;
    }
    for (const [i, one] of page.entries()) {
      const verdict = verdicts[i];
      if (verdict?.do !== "remove") continue;
      batch.push({ one, changes: verdict.changes });
      size += verdict.changes.length;
      if (size >= COMMIT_CHANGES) await flush();
    }
    await flush();
    return conflicts;
  }

  /**
   * Judges a page of events and stores `also` after its deletions, before its marks: an event may get the place again that
   * `also` takes from it, when the clock is set back meanwhile. @returns how many were deleted
   */
  async function look(
    page: readonly StoredEvent[],
    options: RetentionOptions,
    wide: WideRemoval,
    marks: Marks,
    also: readonly Change[],
    unreadable: Unreadable,
  ): Promise<number> {
    const narrow = page.filter(({ event }) => event.wide === undefined);
    const verdicts = await judge(narrow, options, unreadable);
    const now = clock.now();
    const after: Change[] = [];
    const going: Change[] = [];
    let removed = 0;
    for (const [i, verdict] of verdicts.entries()) {
      const { event } = narrow[i] as StoredEvent;
      if (verdict.do === "later") after.push(marks.again(verdict.at, event.keyId, event.ordinal));
      if (verdict.do !== "remove") continue;
      removed++;
      for (const change of verdict.changes) going.push(change);
    }
    // Nearly always: the whole page goes in one commit with its marks.
    const whole = narrow.length === page.length && going.length + after.length + also.length <= COMMIT_CHANGES;
    const all = [...going, ...also, ...after];
    if (whole && (all.length === 0 || (await tryCommit(storage, all)))) return removed;
    const conflicts = await removeAll(narrow, verdicts);
    removed -= conflicts.length;
    for (const { event } of conflicts) after.push(marks.again(now + CONFLICT_AGAIN_MS, event.keyId, event.ordinal));
    for (const { event, text } of page) {
      if (event.wide === undefined) continue;
      const { keyId, ordinal } = event;
      const removal = wide.remove(event, text, goesAt(keepOf(options, keyId, event.type), event.acceptedAt), now);
      const verdict = await unlessUnreadable(removal, (error) => unreadable(EVENT.key({ keyId, ordinal }), error));
      if (verdict?.do === "removed") removed++;
      else if (verdict?.do !== "keep") after.push(marks.again(verdict?.at ?? now + LEAST_AGE_MS, keyId, ordinal));
    }
    const changes = [...also, ...after];
    if (changes.length > 0) await storage.commit(changes);
    return removed;
  }

  /** Sets the expiry of tombstones from before there was an index of expiries. */
  async function expireTombstones(unreadable: Unreadable): Promise<void> {
    for await (const { key, value } of everyEntry(storage, SUBSCRIPTION.start)) {
      const sub = readSubscription(value, key, (error) => unreadable(key, error));
      if (sub.deletedAt === undefined) continue;
      await storage.commit([EXPIRY.put({ at: sub.deletedAt + TOMBSTONE_MS, target: key }, "")]);
    }
  }

  return {
    async run(options, signal) {
      if (!removesAny(options)) return 0;
      const rules = [...new Set([options, ...(deps.rules ?? [])].map(ruleOf))];
      const marks = createMarks(storage, ruleOf(options));
      let warned = false;
      const unreadable: Unreadable = (key, error) => {
        if (!warned) log?.warn("retention keeps what it cannot read", { key, error: String(error) });
        warned = true;
      };
      if (await marks.isNew()) await expireTombstones(unreadable);
      await marks.forgetOthers(rules);
      await marks.adoptReplayed(rules, clock.now());
      using pacer = createPacer(given.clock, { maxConcurrent: 1 }, signal);
      const wide = createWideRemoval({ storage, wideStatus, due: (lines) => storage.queue.add(lines) });
      let removed = 0;

      async function paced(work: () => Promise<number>, late = false): Promise<void> {
        const count = await pacer.schedule(async () => {
          const began = clock.monotonic();
          const gone = await work();
          pacer.setMinTime(late ? 0 : Math.ceil((clock.monotonic() - began) * PACE));
          return gone;
        });
        removed += count ?? 0;
      }

      /** Looks at the old events of a key behind one ordinal; up to another one, which its mark has passed, or all. */
      async function walk(keyId: string, youngestMs: number, after: string | undefined, last?: string): Promise<void> {
        let from = after;
        let limit = PAGE / 10;
        for (let more = true; more && !signal.aborted;) {
          const row = from === undefined ? undefined : EVENT.key({ keyId, ordinal: from });
          const entries = await storage.range(EVENT.under({ keyId }), { after: row, limit });
          const until = clock.now() - youngestMs;
          const isOld = (one: string): boolean => ordinalTime(one) <= until && (last === undefined || one <= last);
          const old = entries.filter(({ key }) => isOld(ordinalOf(key)));
          more = old.length === limit;
          const end = old.at(-1)?.key;
          if (end === undefined) return;
          const ordinal = ordinalOf(end);
          const page = old.flatMap(({ key, value }) => stored(key, value));
          const lagMs = last === undefined ? Math.max(0, until - ordinalTime(ordinal)) : 0;
          metrics?.gauge("retention_lag_seconds", lagMs / 1_000);
          const passed = last === undefined ? [marks.passed(keyId, ordinal)] : [];
          await paced(() => look(page, options, wide, marks, passed, unreadable), lagMs > LATE_MS);
          from = ordinal;
          const bytes = page.reduce((sum, { text }) => sum + text.length, 0) / Math.max(1, page.length);
          limit = Math.min(PAGE, Math.max(1, Math.floor(PAGE_BYTES / bytes)));
        }
      }

      const whole = await marks.wholeIsDue(clock.now());
      for await (const rechecks of marks.due(clock.now())) {
        if (signal.aborted) return removed;
        const keys = rechecks.map(({ keyId, ordinal }) => EVENT.key({ keyId, ordinal }));
        const texts = await readTexts(storage, keys);
        const page = texts.flatMap((text, i) => stored(keys[i] as string, text));
        const done = rechecks.map((one) => one.done);
        await paced(() => look(page, options, wide, marks, done, unreadable));
      }
      for await (const { key: keyRow } of everyEntry(storage, API_KEY.start)) {
        const keyId = API_KEY.id(keyRow).keyId;
        const youngestMs = Math.max(LEAST_AGE_MS, youngestOf(options, keyId) ?? Infinity);
        const mark = await marks.from(keyId);
        if (youngestMs < Infinity) {
          if (whole && mark !== undefined) await walk(keyId, youngestMs, undefined, mark);
          await walk(keyId, youngestMs, mark);
        }
        if (signal.aborted) return removed;
        await unlessUnreadable(wide.tidy(keyId, signal), (error) => unreadable(SNAPSHOT.under({ keyId }), error));
      }
      metrics?.gauge("retention_lag_seconds", 0);
      if (whole && !signal.aborted) await storage.commit([marks.wholeDone(clock.now())]);
      return removed;
    },
  };
}

/** Returns a stored event. A damaged one stays: nobody can say whether it has ended, or what else belongs to it. */
function stored(key: string, text: string | undefined): readonly StoredEvent[] {
  const event = unlessDamaged(EVENT.read(text, key));
  return text === undefined || event === undefined ? [] : [{ text, event }];
}
