/**
 * Backups: every record of a storage as lines of text, taken while a relay is at work, and put back into an empty one.
 *
 * The records are read in key order, and each commit that happens meanwhile is written between them, in turn. So the
 * lines, carried out one after the other, come to what was stored at the moment when the last of them was written:
 * a consistent state, though nothing ever stood still.
 */
import { createHash } from "node:crypto";
import { StorageError } from "../model/errors.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";

const PAGE = 200;
/** Changes that wait while a reader is slow; beyond it the backup is given up. */
const MOST_WAITING = 64 * 1024 * 1024;
const VERSION = 1;

/** The first line. */
export interface Head {
  readonly relaybox: "backup";
  readonly version: number;
  /** Epoch ms at which it was begun. */
  readonly at: number;
  readonly storage: string;
}
/** The last line: how many there are between it and the first, and the hash of all before it. */
interface Foot {
  readonly lines: number;
  readonly sha256: string;
}

/** A storage of which a backup can be taken while others write: every commit passes through this process. */
export type TappedStorage = Pick<Storage, "range" | "commit"> & Required<Pick<Storage, "tap">>;
export const canTap = (storage: Storage): storage is Storage & TappedStorage => storage.tap !== undefined;

const lineOf = (change: Change): string =>
  change.op === "put"
    ? `["p",${JSON.stringify(change.key)},${JSON.stringify(change.value)}]\n`
    : `["d",${JSON.stringify(change.key)}]\n`;
const lineOfEntry = ({ key, value }: Entry): string => `["p",${JSON.stringify(key)},${JSON.stringify(value)}]\n`;

/**
 * The lines of a backup, a page at a time.
 * @throws StorageError when the storage cannot be read, or when too much was changed while the reader rested
 */
export async function* dump(
  storage: TappedStorage,
  about: { readonly storage: string; readonly at: number },
): AsyncGenerator<string> {
  const hash = createHash("sha256");
  let lines = 0;
  let waiting: string[] = [];
  let size = 0;

  let unsure = false;
  const untap = storage.tap((changes, certain) => {
    if (!certain) unsure = true;
    for (const change of changes) {
      if (change.op === "check") continue;
      const line = lineOf(change);
      waiting.push(line);
      size += line.length;
    }
  });
  const written = (texts: readonly string[]): string => {
    const text = texts.join("");
    hash.update(text);
    lines += texts.length;
    return text;
  };
  const changed = (): readonly string[] => {
    if (unsure) throw new StorageError("uncertain", "what was stored meanwhile is not known: take the backup again");
    if (size > MOST_WAITING) throw new StorageError("unavailable", "more was changed than the backup could write");
    const texts = waiting;
    waiting = [];
    size = 0;
    return texts;
  };

  try {
    const head: Head = { relaybox: "backup", version: VERSION, ...about };
    const first = `${JSON.stringify(head)}\n`;
    hash.update(first);
    yield first;
    // Commits keep their order: when this one is done, all are that were under way before we listened.
    await barrier(storage);
    for (let after: string | undefined; ;) {
      // A change that comes while a page is read is written behind it: the page may not show it.
      const before = changed();
      const page = await storage.range("", { after, limit: PAGE });
      yield written([...before, ...page.map(lineOfEntry)]);
      if (page.length < PAGE) break;
      after = page.at(-1)?.key;
    }
    // …and what the pages showed has been told when this one is done.
    await barrier(storage);
    yield written(changed());
    yield footOf(lines, hash.digest("hex"));
  } finally {
    untap();
  }
}

const footOf = (lines: number, sha256: string): string => `${JSON.stringify({ lines, sha256 } satisfies Foot)}\n`;

/** A commit of nothing, on a condition that always holds. */
const barrier = (storage: Pick<Storage, "commit">): Promise<void> =>
  storage.commit([{ op: "check", key: "control:barrier", if: null }]);

/** The file is no backup, or not all of one. */
export class NoBackup extends Error {}

export interface Contents {
  readonly head: Head;
  readonly lines: number;
  /** Of the whole: names it. */
  readonly sha256: string;
}

/** Reads a backup to its end and says what it is. @throws NoBackup */
export async function inspect(lines: AsyncIterable<string>): Promise<Contents> {
  const hash = createHash("sha256");
  let head: Head | undefined;
  let foot: Foot | undefined;
  let count = 0;
  for await (const line of lines) {
    if (foot !== undefined) throw new NoBackup("there is something behind its end");
    const value = parse(line);
    if (head === undefined) {
      head = value as Head;
      if (head.relaybox !== "backup") throw new NoBackup("it is no backup of a relay");
      if (head.version !== VERSION) throw new NoBackup(`it is of version ${head.version}, this one reads ${VERSION}`);
    } else if (Array.isArray(value)) {
      changeOf(value);
      count++;
    } else {
      foot = value as Foot;
      continue;
    }
    hash.update(`${line}\n`);
  }
  if (head === undefined) throw new NoBackup("it is empty");
  if (foot === undefined) throw new NoBackup("its end is missing");
  const sha256 = hash.digest("hex");
  if (foot.lines !== count || foot.sha256 !== sha256) throw new NoBackup("it was changed or is not whole");
  return { head, lines: count, sha256 };
}

/** The changes of a backup in batches, each to be committed in turn. Repeated from the beginning, they come to the same. */
export async function* batches(
  lines: AsyncIterable<string>,
  mostChars = 4 * 1024 * 1024,
): AsyncGenerator<readonly Change[]> {
  let batch = new Map<string, Change>();
  let chars = 0;
  for await (const line of lines) {
    const value = parse(line);
    if (!Array.isArray(value)) continue;
    const change = changeOf(value);
    // The last word on a key is what counts.
    batch.set(change.key, change);
    chars += line.length;
    if (batch.size < 500 && chars < mostChars) continue;
    yield [...batch.values()];
    batch = new Map();
    chars = 0;
  }
  if (batch.size > 0) yield [...batch.values()];
}

function parse(line: string): unknown {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // Said below.
  }
  throw new NoBackup("a line of it cannot be read");
}

function changeOf([op, key, value]: readonly unknown[]): Change {
  if (op === "p" && typeof key === "string" && typeof value === "string") return { op: "put", key, value };
  if (op === "d" && typeof key === "string") return { op: "delete", key };
  throw new NoBackup("a line of it cannot be read");
}
