/** A storage in a Map whose commits a test can hold up, break or count: what a real one does only by accident. */
import type { Due } from "../../core/model/delivery.ts";
import { ConflictError } from "../../core/model/errors.ts";
import type { Change, QueueDepth, RangeOptions, Storage } from "../../core/ports/storage.ts";

export interface Shelf extends Pick<Storage, "commit" | "getItem" | "getMany" | "range"> {
  readonly rows: Map<string, string>;
  /** Commits that were carried out, in order. */
  readonly commits: (readonly Change[])[];
  /** Called before each commit is judged: may wait, throw, or change rows as another node would. */
  before: (changes: readonly Change[]) => Promise<void> | void;
  /** Called after a commit was carried out: what it throws is how the commit seems to have ended. */
  after: (changes: readonly Change[]) => Promise<void> | void;
  readonly queue: {
    add(dues: readonly Due[]): void;
    depth(): Promise<QueueDepth>;
    pending(subscriptionIds: readonly string[]): Promise<number>;
  };
  readonly added: Due[];
  depth: QueueDepth;
}

export function shelf(): Shelf {
  const rows = new Map<string, string>();
  const commits: (readonly Change[])[] = [];
  const added: Due[] = [];
  const holds = (change: Change): boolean =>
    change.if === undefined || (change.if === null ? !rows.has(change.key) : rows.get(change.key) === change.if);
  const made: Shelf = {
    rows,
    commits,
    added,
    depth: { waiting: 0, leased: 0 },
    before: () => {},
    after: () => {},
    getItem: async (key) => rows.get(key),
    getMany: async (keys) => keys.map((key) => rows.get(key)),
    async range(prefix: string, { after, limit = 100, reverse = false }: RangeOptions = {}) {
      const found = [...rows]
        .filter(([key]) => key.startsWith(prefix))
        .sort(([a], [b]) => (a < b ? -1 : 1) * (reverse ? -1 : 1))
        .filter(([key]) => after === undefined || (reverse ? key < after : key > after));
      return found.slice(0, limit).map(([key, value]) => ({ key, value }));
    },
    async commit(changes) {
      await made.before(changes);
      const wrong = changes.filter((change) => !holds(change)).map(({ key }) => key);
      if (wrong.length > 0) throw new ConflictError(wrong);
      for (const change of changes) {
        if (change.op === "put") rows.set(change.key, change.value);
        else if (change.op === "delete") rows.delete(change.key);
      }
      commits.push(changes);
      await made.after(changes);
    },
    queue: {
      add: (dues) => void added.push(...dues),
      depth: async () => made.depth,
      pending: async (ids) => [...rows.keys()].filter((key) => ids.some((id) => key.startsWith(`due:${id}:`))).length,
    },
  };
  return made;
}
