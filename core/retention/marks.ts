/**
 * Records how far retention has come. It judges each event once, when the event is old enough; a mark per key says
 * where the next run continues. An event that could not be deleted then is in an index by the time at which it may be.
 * So a run costs what it deletes, not what stays. Marks are stored with the deletions: an interrupted run continues
 * where it was.
 *
 * A clock that was far behind for a while has left events behind a mark that nobody has judged. So once in a month a run
 * reads what stays, too.
 */
import { isOrdinal } from "../model/ids.ts";
import { RECHECK, REPLAYED, RETENTION, WHOLE_RELAY } from "../model/schema.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { everyPage } from "../records/every-entry.ts";

const PAGE = 200;
const WHOLE_AGAIN_MS = 30 * 86_400_000;

interface Recheck {
  readonly keyId: string;
  readonly ordinal: string;
  readonly done: Change;
}

export class Marks {
  readonly #storage: Pick<Storage, "getItem" | "range" | "commit">;
  readonly #rule: string;

  constructor(storage: Pick<Storage, "getItem" | "range" | "commit">, rule: string) {
    [this.#storage, this.#rule] = [storage, rule];
  }

  /** Returns the ordinal after which a key's next event comes; `undefined`: at the beginning. */
  async from(keyId: string): Promise<string | undefined> {
    const mark = await this.#storage.getItem(RETENTION.key({ rule: this.#rule, keyId }));
    // A damaged one could pass over everything: then all is read again.
    return mark !== undefined && isOrdinal(mark) ? mark : undefined;
  }

  passed(keyId: string, ordinal: string): Change {
    return RETENTION.put({ rule: this.#rule, keyId }, ordinal);
  }

  again(at: number, keyId: string, ordinal: string): Change {
    return RECHECK.put({ rule: this.#rule, at, keyId, ordinal }, "");
  }

  /** Returns true when this run reads the events behind the marks, too. The first one has none behind. */
  async wholeIsDue(now: number): Promise<boolean> {
    const last = Number((await this.#storage.getItem(this.wholeDone(now).key)) ?? Number.NaN);
    if (now - last >= WHOLE_AGAIN_MS) return true;
    // Counted from now on where there is none, or one by a clock that was ahead.
    if (!(last <= now)) await this.#storage.commit([this.wholeDone(now)]);
    return false;
  }

  wholeDone(now: number): Change {
    return this.passed(WHOLE_RELAY, String(now));
  }

  /** Yields pages of events that must be judged again. */
  async *due(now: number): AsyncGenerator<readonly Recheck[]> {
    for await (const page of everyPage(this.#storage, RECHECK.under({ rule: this.#rule }), { limit: PAGE })) {
      const ready = page.map(({ key }) => ({ ...RECHECK.id(key), done: { op: "delete", key } as const }));
      const due = ready.filter(({ at }) => at <= now);
      if (due.length > 0) yield due;
      if (due.length < page.length) return;
    }
  }

  /** Passes replayed events to every rule. @param rules all configured rules */
  async adoptReplayed(rules: readonly string[], now: number): Promise<void> {
    for await (const page of everyPage(this.#storage, REPLAYED.start, { limit: PAGE })) {
      const changes = page.flatMap(({ key }): readonly Change[] => {
        const id = REPLAYED.id(key);
        return [{ op: "delete", key }, ...rules.map((rule) => RECHECK.put({ rule, at: now, ...id }, ""))];
      });
      await this.#storage.commit(changes);
    }
  }

  /** Deletes the marks of rules that are no longer configured. */
  async forgetOthers(rules: readonly string[]): Promise<void> {
    for (const kind of [RETENTION, RECHECK])
      for await (const rule of this.#rulesOn(kind)) {
        if (rules.includes(rule)) continue;
        for await (const page of everyPage(this.#storage, kind.under({ rule })))
          await this.#storage.commit(page.map(({ key }) => ({ op: "delete", key })));
      }
  }

  /** Yields the rules that have marks of a kind, found by skipping from one to the next. */
  async *#rulesOn(kind: typeof RETENTION | typeof RECHECK): AsyncGenerator<string> {
    for (let after: string | undefined; ;) {
      const [entry] = await this.#storage.range(kind.start, { after, limit: 1 });
      if (entry === undefined) return;
      const { rule } = kind.id(entry.key);
      yield rule;
      after = kind.end({ rule });
    }
  }
}
