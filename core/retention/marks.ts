/**
 * Records how far retention has come. It judges each event once, when the event is old enough; a mark per key says
 * where the next run continues. An event that could not be deleted then is in an index by the time at which it may be.
 * So a run costs what it deletes, not what stays. Marks are stored with the deletions: an interrupted run continues
 * where it was.
 *
 * A clock that was far behind for a while has left events behind a mark that nobody has judged. So once in a month a run
 * looks at what stays, too.
 */
import { isOrdinal } from "../model/ids.ts";
import { RECHECK, REPLAYED, RETENTION, WHOLE_RELAY } from "../model/schema.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";

const PAGE = 200;
const WHOLE_AGAIN_MS = 30 * 86_400_000;
/** Sorts after every key that begins with the text before it. */

/** An event that must be judged again. */
interface Recheck {
  readonly keyId: string;
  readonly ordinal: string;
  /** Removes it from the index. */
  readonly done: Change;
}

export interface Marks {
  /** True when no run of this rule has come to its first event yet. */
  isNew(): Promise<boolean>;
  /** Returns the ordinal after which a key's next event comes; `undefined`: at the beginning. */
  from(keyId: string): Promise<string | undefined>;
  passed(keyId: string, ordinal: string): Change;
  /** Whether this run looks at the events behind the marks, too. The first one has none behind. */
  wholeIsDue(now: number): Promise<boolean>;
  wholeDone(now: number): Change;
  again(at: number, keyId: string, ordinal: string): Change;
  /** Yields pages of events that must be judged again. */
  due(now: number): AsyncGenerator<readonly Recheck[]>;
  /** Passes replayed events to every rule. @param rules all configured rules */
  adoptReplayed(rules: readonly string[], now: number): Promise<void>;
  /** Deletes the marks of rules that are no longer configured. */
  forgetOthers(rules: readonly string[]): Promise<void>;
}

export function createMarks(storage: Pick<Storage, "getItem" | "range" | "commit">, rule: string): Marks {
  async function forget(kind: typeof RETENTION | typeof RECHECK, other: string): Promise<void> {
    for (;;) {
      const page = await storage.range(kind.under({ rule: other }), { limit: PAGE });
      if (page.length > 0) await storage.commit(page.map(({ key }) => ({ op: "delete", key })));
      if (page.length < PAGE) return;
    }
  }

  /** Yields the rules that have marks of a kind, found by skipping from one to the next. */
  async function* rulesOn(kind: typeof RETENTION | typeof RECHECK): AsyncGenerator<string> {
    for (let after: string | undefined; ;) {
      const [entry] = await storage.range(kind.start, { after, limit: 1 });
      if (entry === undefined) return;
      const found = kind.id(entry.key).rule;
      yield found;
      after = kind.end({ rule: found });
    }
  }

  const wholeKey = RETENTION.key({ rule, keyId: WHOLE_RELAY });
  const wholeDone = (now: number): Change => ({ op: "put", key: wholeKey, value: String(now) });

  return {
    wholeDone,
    async wholeIsDue(now) {
      const last = Number((await storage.getItem(wholeKey)) ?? Number.NaN);
      if (now - last >= WHOLE_AGAIN_MS) return true;
      // Counted from now on where there is none, or one by a clock that was ahead.
      if (!(last <= now)) await storage.commit([wholeDone(now)]);
      return false;
    },
    isNew: async () => (await storage.range(RETENTION.under({ rule }), { limit: 1 })).length === 0,
    async from(keyId) {
      const mark = await storage.getItem(RETENTION.key({ rule, keyId }));
      // A damaged one could pass over everything: then all is looked at again.
      return mark !== undefined && isOrdinal(mark) ? mark : undefined;
    },
    passed: (keyId, ordinal) => RETENTION.put({ rule, keyId }, ordinal),
    again: (at, keyId, ordinal) => RECHECK.put({ rule, at, keyId, ordinal }, ""),
    async *due(now) {
      for (let after: string | undefined; ;) {
        const page: readonly Entry[] = await storage.range(RECHECK.under({ rule }), { after, limit: PAGE });
        const ready = page.filter(({ key }) => RECHECK.id(key).at <= now);
        if (ready.length > 0)
          yield ready.map(({ key }) => ({ ...RECHECK.id(key), done: { op: "delete", key } as const }));
        if (ready.length < PAGE) return;
        after = page.at(-1)?.key;
      }
    },
    async adoptReplayed(rules, now) {
      for (;;) {
        const page = await storage.range(REPLAYED.start, { limit: PAGE });
        const changes = page.flatMap(({ key }): readonly Change[] => {
          const { keyId, ordinal } = REPLAYED.id(key);
          const looks = rules.map((one) => RECHECK.key({ rule: one, at: now, keyId, ordinal }));
          return [{ op: "delete", key }, ...looks.map((look): Change => ({ op: "put", key: look, value: "" }))];
        });
        if (changes.length > 0) await storage.commit(changes);
        if (page.length < PAGE) return;
      }
    },
    async forgetOthers(rules) {
      for (const kind of [RETENTION, RECHECK])
        for await (const other of rulesOn(kind)) if (!rules.includes(other)) await forget(kind, other);
    },
  };
}
