/** Deletes what has ended and is old. Pending deliveries are never deleted, failed ones only by an explicit setting. */
import { createCautiousNow } from "../lib/cautious-now.ts";
import type { RelayEvent } from "../model/event.ts";
import { ordinalTime } from "../model/ids.ts";
import { unlessDamaged } from "../model/kind.ts";
import { API_KEY, EVENT, ordinalOf, SNAPSHOT } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { readTexts, unlessUnreadable } from "../records/damage.ts";
import { everyEntry } from "../records/every-entry.ts";
import { createPacer, type Pacer } from "../records/pacer.ts";
import { tryCommit } from "../records/transaction.ts";
import type { ReadWideStatus } from "../records/wide-status.ts";
import { createEventJudge, type Judge, type StoredEvent } from "./judge-events.ts";
import { Marks } from "./marks.ts";
import { keepOf, removesAny, ruleOf, youngestOf, type RetentionOptions } from "./options.ts";
import { removeWide, tidyWide, type GoesAt } from "./remove-wide.ts";

interface Retention {
  /** Judges what has become old enough since the last run. @returns how many events were deleted */
  run(options: RetentionOptions, signal: AbortSignal): Promise<number>;
}

/** An event that cannot be read is judged again after this, ms. */
const LATER_MS = 86_400_000;
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

interface RetentionDeps {
  readonly storage: Pick<Storage, "getItem" | "getMany" | "range" | "commit" | "queue">;
  readonly wideStatus: ReadWideStatus;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  readonly metrics: Pick<Metrics, "gauge">;
  /** All configured rules: a replayed event is judged again by each. */
  readonly rules: readonly RetentionOptions[];
}

export function createRetention(deps: RetentionDeps): Retention {
  const { storage, clock } = deps;
  const now = createCautiousNow(clock);
  const judge = createEventJudge({ storage, now });
  return {
    async run(options, signal) {
      if (!removesAny(options)) return 0;
      using pacer = createPacer(clock, { maxConcurrent: 1 }, signal);
      return await new Run({ ...deps, now, judge, pacer, signal }, options).overAllKeys();
    },
  };
}

interface RunDeps extends RetentionDeps {
  readonly now: () => number;
  readonly judge: Judge;
  readonly pacer: Pacer;
  readonly signal: AbortSignal;
}

class Run {
  readonly #deps: RunDeps;
  readonly #options: RetentionOptions;
  readonly #marks: Marks;
  #removed = 0;
  #warned = false;

  constructor(deps: RunDeps, options: RetentionOptions) {
    [this.#deps, this.#options] = [deps, options];
    this.#marks = new Marks(deps.storage, ruleOf(options));
  }

  /** @returns how many events were deleted */
  async overAllKeys(): Promise<number> {
    const { storage, metrics, now, rules, signal } = this.#deps;
    const names = [...new Set([this.#options, ...rules].map(ruleOf))];
    await this.#marks.forgetOthers(names);
    await this.#marks.adoptReplayed(names, now());
    const whole = await this.#marks.wholeIsDue(now());
    await this.#again();
    for await (const { key } of everyEntry(storage, API_KEY.start)) {
      if (signal.aborted) return this.#removed;
      await this.#key(API_KEY.id(key).keyId, whole);
    }
    metrics.gauge("retention_lag_seconds", 0);
    if (whole && !signal.aborted) await storage.commit([this.#marks.wholeDone(now())]);
    return this.#removed;
  }

  /** Judges the events whose time has come since an earlier run judged them. */
  async #again(): Promise<void> {
    const { storage, now, signal } = this.#deps;
    for await (const rechecks of this.#marks.due(now())) {
      if (signal.aborted) return;
      const keys = rechecks.map(({ keyId, ordinal }) => EVENT.key({ keyId, ordinal }));
      const texts = await readTexts(storage, keys);
      const page = texts.flatMap((text, i) => stored(keys[i] as string, text));
      const done = rechecks.map((one) => one.done);
      await this.#paced(page, done);
    }
  }

  async #key(keyId: string, whole: boolean): Promise<void> {
    const { storage, signal } = this.#deps;
    const youngestMs = youngestOf(this.#options, keyId);
    const mark = await this.#marks.from(keyId);
    if (youngestMs !== undefined) {
      if (whole && mark !== undefined) await this.#walk(keyId, youngestMs, undefined, mark);
      await this.#walk(keyId, youngestMs, mark);
    }
    const tidied = tidyWide(storage, keyId, signal);
    await unlessUnreadable(tidied, (error) => this.#keeps(SNAPSHOT.under({ keyId }), error));
  }

  /** Judges the old events of a key behind one ordinal; up to another one, which its mark has passed, or all. */
  async #walk(keyId: string, youngestMs: number, after: string | undefined, last?: string): Promise<void> {
    const { storage, now, metrics, signal } = this.#deps;
    let from = after;
    let limit = PAGE / 10;
    for (let more = true; more && !signal.aborted;) {
      const row = from === undefined ? undefined : EVENT.key({ keyId, ordinal: from });
      const entries = await storage.range(EVENT.under({ keyId }), { after: row, limit });
      const until = now() - youngestMs;
      const isOld = (one: string): boolean => ordinalTime(one) <= until && (last === undefined || one <= last);
      const old = entries.filter(({ key }) => isOld(ordinalOf(key)));
      more = old.length === limit;
      const end = old.at(-1)?.key;
      if (end === undefined) return;
      const ordinal = ordinalOf(end);
      const page = old.flatMap(({ key, value }) => stored(key, value));
      const lagMs = last === undefined ? Math.max(0, until - ordinalTime(ordinal)) : 0;
      metrics.gauge("retention_lag_seconds", lagMs / 1_000);
      await this.#paced(page, last === undefined ? [this.#marks.passed(keyId, ordinal)] : [], lagMs > LATE_MS);
      from = ordinal;
      const bytes = page.reduce((sum, { text }) => sum + text.length, 0) / Math.max(1, page.length);
      limit = Math.min(PAGE, Math.max(1, Math.floor(PAGE_BYTES / bytes)));
    }
  }

  /** Judges a page once the pause after the last one is over. */
  async #paced(page: readonly StoredEvent[], also: readonly Change[], late = false): Promise<void> {
    const { clock, pacer } = this.#deps;
    const removed = await pacer.schedule(async () => {
      const began = clock.monotonic();
      const gone = await this.#page(page, also);
      pacer.setMinTime(late ? 0 : Math.ceil((clock.monotonic() - began) * PACE));
      return gone;
    });
    this.#removed += removed ?? 0;
  }

  /**
   * Judges a page of events and stores `also` after its deletions, before its marks: an event may get the place again that
   * `also` takes from it, when the clock is set back meanwhile. @returns how many were deleted
   */
  async #page(page: readonly StoredEvent[], also: readonly Change[]): Promise<number> {
    const { storage, judge, now } = this.#deps;
    const narrow = page.filter(({ event }) => event.wide === undefined);
    const verdicts = await judge(narrow, this.#options, this.#keeps);
    const at = now();
    const after: Change[] = [];
    const going: Going[] = [];
    for (const [i, verdict] of verdicts.entries()) {
      const one = narrow[i] as StoredEvent;
      const { keyId, ordinal } = one.event;
      if (verdict.do === "later") after.push(this.#marks.again(verdict.at, keyId, ordinal));
      if (verdict.do === "remove") going.push({ one, changes: verdict.changes });
    }
    // Nearly always: the whole page goes in one commit with its marks.
    const all = [...going.flatMap(({ changes }) => changes), ...also, ...after];
    const whole = narrow.length === page.length && all.length <= COMMIT_CHANGES;
    if (whole && (all.length === 0 || (await tryCommit(storage, all)))) return going.length;
    const changed = await removeAll(storage, going);
    let removed = going.length - changed.length;
    for (const { keyId, ordinal } of changed) after.push(this.#marks.again(at + CONFLICT_AGAIN_MS, keyId, ordinal));
    for (const one of page) if (one.event.wide !== undefined && (await this.#removedWide(one, at, after))) removed++;
    const changes = [...also, ...after];
    if (changes.length > 0) await storage.commit(changes);
    return removed;
  }

  /** @param after gets the mark by which the event is judged again */
  async #removedWide({ event, text }: StoredEvent, now: number, after: Change[]): Promise<boolean> {
    const { keyId, ordinal, type, acceptedAt } = event;
    const keep = keepOf(this.#options, keyId, type);
    const goesAt: GoesAt = (status, endedAt) => {
      const keepMs = status === "failed" ? keep.failedAfterMs : keep.deliveredAfterMs;
      return keepMs === undefined ? undefined : Math.max(acceptedAt, endedAt) + keepMs;
    };
    const removal = removeWide(this.#deps, { event, text }, goesAt, now);
    const verdict = await unlessUnreadable(removal, (error) => this.#keeps(EVENT.key({ keyId, ordinal }), error));
    if (verdict?.do !== "removed" && verdict?.do !== "keep")
      after.push(this.#marks.again(verdict?.at ?? now + LATER_MS, keyId, ordinal));
    return verdict?.do === "removed";
  }

  /** Says once in a run that something stays because it cannot be read. */
  readonly #keeps = (key: string, error: unknown): void => {
    if (!this.#warned) this.#deps.log.warn("retention keeps what it cannot read", { key, error: String(error) });
    this.#warned = true;
  };
}

/** An event that is old enough, and the changes that delete it. */
interface Going {
  readonly one: StoredEvent;
  readonly changes: readonly Change[];
}

/** Commits deletions together; where something changed, or there is too much, in halves. @returns the changed events */
async function removeAll(storage: Pick<Storage, "commit">, going: readonly Going[]): Promise<readonly RelayEvent[]> {
  const changes = going.flatMap((one) => one.changes);
  const few = going.length <= 1;
  if (changes.length === 0 || ((few || changes.length <= COMMIT_CHANGES) && (await tryCommit(storage, changes))))
    return [];
  if (few) return going.map(({ one }) => one.event);
  const middle = going.length / 2;
  return [...(await removeAll(storage, going.slice(0, middle))), ...(await removeAll(storage, going.slice(middle)))];
}

/** Returns a stored event. A damaged one stays: nobody can say whether it has ended, or what else belongs to it. */
function stored(key: string, text: string | undefined): readonly StoredEvent[] {
  const event = unlessDamaged(EVENT.read(text, key));
  return text === undefined || event === undefined ? [] : [{ text, event }];
}
