/**
 * Remembers which lines of a file are stored, in the relay's storage, for files that take longer than repeats are
 * recognised.
 */
import { hash } from "node:crypto";
import type { ScopedStorage } from "../../../core/ports/plugin.ts";
import type { TakenFile } from "./folder.ts";

/** First and last line, both included. */
export type ByteRange = readonly [first: number, last: number];

export interface ReadPosition {
  read(identity: string): Promise<readonly ByteRange[]>;
  write(identity: string, stored: readonly ByteRange[], file: TakenFile): Promise<void>;
  forget(identity: string): Promise<void>;
  /** Forgets all other files, after `gone` was called for each: an earlier run moved them, or somebody removed them. */
  keepOnly(identities: ReadonlySet<string>, gone: (file: TakenFile) => Promise<void>): Promise<void>;
}

/** What is stored about a file; only its ranges in the first version. */
type Row = readonly ByteRange[] | { readonly stored: readonly ByteRange[]; readonly file: TakenFile };

const PAGE = 500;

export function createProgress(storage: ScopedStorage, dir: string): ReadPosition {
  const prefix = `${hash("sha256", dir, "hex").slice(0, 16)}:`;
  return {
    async read(identity) {
      const text = await storage.getItem(prefix + identity);
      if (text === undefined) return [];
      const row = JSON.parse(text) as Row;
      return "stored" in row ? row.stored : row;
    },
    write: (identity, stored, file) =>
      storage.commit([{ op: "put", key: prefix + identity, value: JSON.stringify({ stored, file } satisfies Row) }]),
    forget: (identity) => storage.commit([{ op: "delete", key: prefix + identity }]),
    async keepOnly(identities, forgotten) {
      let after: string | undefined;
      for (;;) {
        const page = await storage.range(prefix, { after, limit: PAGE });
        const gone = page.filter(({ key }) => !identities.has(key.slice(prefix.length)));
        for (const { value } of gone) {
          const row = JSON.parse(value) as Row;
          if ("file" in row) await forgotten(row.file);
        }
        if (gone.length > 0) await storage.commit(gone.map(({ key }) => ({ op: "delete", key })));
        if (page.length < PAGE) return;
        after = page.at(-1)?.key;
      }
    },
  };
}

export const covers = (stored: readonly ByteRange[], line: number): boolean =>
  stored.some(([first, last]) => first <= line && line <= last);

/** Adds a range at the end, joined with its neighbour where they touch. */
export function withRange(stored: readonly ByteRange[], [first, last]: ByteRange): readonly ByteRange[] {
  const before = stored.at(-1);
  return before !== undefined && before[1] === first - 1
    ? [...stored.slice(0, -1), [before[0], last]]
    : [...stored, [first, last]];
}
