/**
 * Backs up every record of a storage as lines of text while a relay is at work, and restores them into an empty
 * storage.
 *
 * The records are read in key order, and each commit that happens meanwhile is written between them, in turn. So the
 * lines, applied one after the other, give what was stored at the moment when the last of them was written: a
 * consistent state, without any pause of the relay.
 */
import { createHash } from "node:crypto";
import { StorageError } from "../model/errors.ts";
import { CONTROL, FILLING } from "../model/schema.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";

const PAGE = 200;
/** Characters of changes that wait while a reader is slow; beyond it the backup fails. */
const MOST_WAITING = 64 * 1024 * 1024;
const VERSION = 1;

interface Head {
  readonly relaybox: "backup";
  readonly version: number;
  /** Epoch ms of its beginning. */
  readonly at: number;
  readonly storage: string;
}

/** The last line: the number of lines between it and the first, and the hash of all before it. */
interface Foot {
  readonly lines: number;
  readonly sha256: string;
}

/** A storage that can be backed up while others write: every commit passes through this process. */
export type TappedStorage = Pick<Storage, "range" | "commit" | "status"> & Required<Pick<Storage, "tap">>;
export const canTap = (storage: Storage): storage is Storage & TappedStorage => storage.tap !== undefined;

/** Stands in place of the foot when a backup ends before it is whole. */
interface Ended {
  readonly ended: string;
}

/** A backup ends before it is whole. The message says why, and is shown to the person who asked for the backup. */
class BackupEnded extends StorageError {}

/** The line for a reader who must not take what came before for a whole backup. */
export function endedLine(error: unknown): string {
  const ended =
    error instanceof BackupEnded ? error.message : "the storage could not be read: the relay's log says more";
  return `${JSON.stringify({ ended } satisfies Ended)}\n`;
}

const lineOf = (change: Change): string =>
  change.op === "put"
    ? `["p",${JSON.stringify(change.key)},${JSON.stringify(change.value)}]\n`
    : `["d",${JSON.stringify(change.key)}]\n`;
const lineOfEntry = ({ key, value }: Entry): string => `["p",${JSON.stringify(key)},${JSON.stringify(value)}]\n`;

/**
 * Yields the lines of a backup, a page at a time.
 * @param mostWaiting characters of changes that wait while the reader pauses
 * @throws StorageError when the storage or one of its files cannot be read, or when too much was changed while the reader paused
 */
export async function* backupLines(
  storage: TappedStorage,
  about: { readonly storage: string; readonly at: number },
  mostWaiting = MOST_WAITING,
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
    if (size <= mostWaiting) return;
    // The backup fails at its next page: until then, which may be long, nothing more is kept.
    waiting = [];
    untap();
  });
  const written = (texts: readonly string[]): string => {
    const text = texts.join("");
    hash.update(text);
    lines += texts.length;
    return text;
  };
  const changed = (): readonly string[] => {
    if (unsure) throw new BackupEnded("uncertain", "some changes during the backup are unknown: take the backup again");
    if (size > mostWaiting)
      throw new BackupEnded(
        "unavailable",
        "more was changed than the backup could write: take it again when there is less load",
      );
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
    const quarantined = await quarantinedIn(storage);
    // Commits keep their order: when this one is done, all commits from before the tap are done too.
    await barrier(storage);
    for (let after: string | undefined; ;) {
      // A change during the read of a page is written after it, since the page may not show it.
      const before = changed();
      const page = await storage.range("", { after, limit: PAGE });
      yield written([...before, ...page.map(lineOfEntry)]);
      if (page.length < PAGE) break;
      after = page.at(-1)?.key;
    }
    // …and every change that the pages show has been reported when this one is done.
    await barrier(storage);
    yield written(changed());
    const lost = await lostSince(storage, quarantined);
    if (lost !== undefined) throw new BackupEnded("broken", lost);
    yield footOf(lines, hash.digest("hex"));
  } finally {
    untap();
  }
}

const footOf = (lines: number, sha256: string): string => `${JSON.stringify({ lines, sha256 } satisfies Foot)}\n`;

/** An empty commit, on a condition that always holds. */
const barrier = (storage: Pick<Storage, "commit">): Promise<void> =>
  storage.commit([{ op: "check", key: CONTROL.key({ what: "barrier", ordinal: "" }), if: null }]);

/** The file is no backup, or an incomplete one. */
export class NoBackup extends Error {}

interface Contents {
  readonly head: Head;
  readonly lines: number;
  /** Hash of the whole backup; identifies it. */
  readonly sha256: string;
}

/** Reads a backup to its end and returns what it contains. @throws NoBackup */
export async function inspect(lines: AsyncIterable<string>): Promise<Contents> {
  const hash = createHash("sha256");
  let head: Head | undefined;
  let foot: Foot | undefined;
  let count = 0;
  for await (const line of lines) {
    if (foot !== undefined) throw new NoBackup("there is text after its end");
    const value = parse(line);
    if (head === undefined) {
      head = value as Head;
      if (head.relaybox !== "backup") throw new NoBackup("it is not a backup of a relay");
      if (head.version !== VERSION) throw new NoBackup(`it is of version ${head.version}, this one reads ${VERSION}`);
    } else if (Array.isArray(value)) {
      const { op, key } = changeOf(value);
      if (op === "put" && key === FILLING) throw new NoBackup("it was taken of a storage that was filled by half");
      count++;
    } else {
      const { ended } = value as Partial<Ended>;
      if (typeof ended === "string") throw new NoBackup(`the relay ended it early: ${ended}`);
      foot = value as Foot;
      continue;
    }
    hash.update(`${line}\n`);
  }
  if (head === undefined) throw new NoBackup("it is empty");
  if (foot === undefined) throw new NoBackup("its end is missing");
  const sha256 = hash.digest("hex");
  if (foot.lines !== count || foot.sha256 !== sha256) throw new NoBackup("it was changed or is incomplete");
  return { head, lines: count, sha256 };
}

/** Yields the changes of a backup in batches, to be committed in turn. Applying them again changes nothing. */
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
    // The last change of a key is what counts.
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
    // Reported below.
  }
  throw new NoBackup("one of its lines cannot be read");
}

function changeOf([op, key, value]: readonly unknown[]): Change {
  if (op === "p" && typeof key === "string" && typeof value === "string") return { op: "put", key, value };
  if (op === "d" && typeof key === "string") return { op: "delete", key };
  throw new NoBackup("one of its lines cannot be read");
}

const numberOf = (fact: unknown): number => (typeof fact === "number" ? fact : 0);

/** Returns how many files the storage has moved to quarantine, in earlier runs too. */
export async function quarantinedIn(storage: Pick<Storage, "status">): Promise<number> {
  return numberOf((await storage.status())["quarantined"]);
}

/**
 * Counts the files that went to quarantine meanwhile, and the items that cannot be read but stay where they are.
 * @returns what is lost, in words; undefined when the copy lacks nothing
 */
export async function lostSince(storage: Pick<Storage, "status">, before: number): Promise<string | undefined> {
  const { quarantined, unreadable } = await storage.status();
  const lost = numberOf(quarantined) - before + numberOf(unreadable);
  if (lost <= 0) return undefined;
  return lost === 1
    ? "1 file or item could not be read: the copy lacks its record, which the log names"
    : `${lost} files or items could not be read: the copy lacks their records, which the log names`;
}
