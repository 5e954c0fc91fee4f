/** Remembers in storage which lines of a file are stored: a long one outlasts the memory of repeats. */
import { hash } from "node:crypto";
import { verified, withChecksum } from "../../../core/lib/checksum.ts";
import { StorageError } from "../../../core/model/errors.ts";
import type { Log, ScopedStorage } from "../../../core/ports/plugin.ts";
import type { TakenFile } from "./folder.ts";

/** First and last line, both included. */
export type LineRange = readonly [first: number, last: number];

export type ReadPosition = ReturnType<typeof createProgress>;

/** The record of a file. The first version stored only its ranges, without a checksum. */
interface Row {
  readonly stored: readonly LineRange[];
  readonly file?: TakenFile;
}

const PAGE = 500;

/** Encodes JSON, its checksum first: a changed digit would count lines as stored that are not. */
const encodeRow = (row: Row): string => withChecksum(JSON.stringify(row).slice(1));

/** Returns `undefined` for a damaged row. */
function decodeRow(text: string): Row | undefined {
  try {
    if (text.startsWith("[")) return { stored: JSON.parse(text) as readonly LineRange[] };
    const proven = verified(text, '{"stored":');
    return proven && (JSON.parse(proven.text) as Row);
  } catch {
    return undefined;
  }
}

export function createProgress(storage: ScopedStorage, dir: string, log: Pick<Log, "warn">) {
  const prefix = `${hash("sha256", dir, "hex").slice(0, 16)}:`;

  function damaged(key: string): undefined {
    log.warn("what is noted about a spool file is damaged", { source: "spool", key });
  }

  return {
    /** Returns nothing when the note is damaged: repeats of the last day are known, and no line is lost. */
    async read(identity: string): Promise<readonly LineRange[]> {
      const key = prefix + identity;
      try {
        const text = await storage.getItem(key);
        return text === undefined ? [] : ((decodeRow(text) ?? damaged(key))?.stored ?? []);
      } catch (error) {
        if (!(error instanceof StorageError && error.fault === "broken")) throw error;
        damaged(key);
        return [];
      }
    },
    write: (identity: string, stored: readonly LineRange[], file: TakenFile) =>
      storage.commit([{ op: "put", key: prefix + identity, value: encodeRow({ stored, file }) }]),
    forget: (identity: string) => storage.commit([{ op: "delete", key: prefix + identity }]),
    /** Forgets all other files, after `forgotten` was called for each: an earlier run moved them, or somebody removed them. */
    async keepOnly(identities: ReadonlySet<string>, forgotten: (file: TakenFile) => Promise<void>): Promise<void> {
      let after: string | undefined;
      for (;;) {
        const page = await storage.range(prefix, { after, limit: PAGE });
        const gone = page.filter(({ key }) => !identities.has(key.slice(prefix.length)));
        for (const { key, value } of gone) {
          const row = decodeRow(value) ?? damaged(key);
          if (row?.file !== undefined) await forgotten(row.file);
        }
        if (gone.length > 0) await storage.commit(gone.map(({ key }) => ({ op: "delete", key })));
        if (page.length < PAGE) return;
        after = page.at(-1)?.key;
      }
    },
  };
}

export const covers = (stored: readonly LineRange[], line: number): boolean =>
  stored.some(([first, last]) => first <= line && line <= last);

/** Adds a range at the end, joined with its neighbour where they touch. */
export function withRange(stored: readonly LineRange[], [first, last]: LineRange): readonly LineRange[] {
  const before = stored.at(-1);
  return before !== undefined && before[1] === first - 1
    ? [...stored.slice(0, -1), [before[0], last]]
    : [...stored, [first, last]];
}
