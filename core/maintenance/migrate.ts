/** Copies every record of one storage to another, in key order, so that an interrupted copy can continue. */
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { everyEntry, everyPage } from "../records/every-entry.ts";

type Source = Pick<Storage, "range">;
type Target = Pick<Storage, "range" | "commit">;

const PAGE = 500;
/** Characters in one commit; a single record may be longer. */
const MOST_CHARS = 4 * 1024 * 1024;

interface CopyOptions {
  /** A key of the target that is not copied, and the value written to it with each page. */
  readonly mark: { readonly key: string; readonly value: (after: string) => string };
  /** The last key that was copied already. */
  readonly after?: string;
  /** Called with the number of records copied since the last call. */
  readonly progress?: (records: number) => void;
}

/** Every commit records how far it is, so that a crash between two costs nothing. */
export async function copyRecords(source: Source, target: Target, options: CopyOptions): Promise<void> {
  const { mark, progress } = options;
  for await (const page of everyPage(source, "", { after: options.after, limit: PAGE })) {
    for (const part of chunks(page.filter(({ key }) => key !== mark.key))) {
      const last = part.at(-1)?.key ?? "";
      await target.commit([...part.map(put), { op: "put", key: mark.key, value: mark.value(last) }]);
      progress?.(part.length);
    }
  }
}

/** Makes the target like the source where they differ. @returns how many records differed */
export async function alignRecords(
  source: Source,
  target: Target,
  { except, progress }: { readonly except: string; readonly progress?: (records: number) => void },
): Promise<number> {
  const theirs = walk(source, except);
  const ours = walk(target, except);
  let wrong = 0;
  let changes: Change[] = [];
  let chars = 0;
  const flush = async (): Promise<void> => {
    if (changes.length > 0) await target.commit(changes);
    wrong += changes.length;
    changes = [];
    chars = 0;
  };
  let [a, b] = [await theirs.next(), await ours.next()];
  while (a.done !== true || b.done !== true) {
    const [from, to] = [a.done === true ? undefined : a.value, b.done === true ? undefined : b.value];
    if (from !== undefined && (to === undefined || from.key <= to.key)) {
      if (from.key !== to?.key || from.value !== to.value) {
        changes.push(put(from));
        chars += from.value.length;
      }
      progress?.(1);
    } else if (to !== undefined) changes.push({ op: "delete", key: to.key });
    const same = from?.key === to?.key;
    const first = from !== undefined && (to === undefined || from.key <= to.key);
    if (first) a = await theirs.next();
    if (same || !first) b = await ours.next();
    if (changes.length >= PAGE || chars >= MOST_CHARS) await flush();
  }
  await flush();
  return wrong;
}

export async function countRecords(source: Source): Promise<number> {
  let count = 0;
  for await (const page of everyPage(source, "")) count += page.length;
  return count;
}

const put = ({ key, value }: Entry): Change => ({ op: "put", key, value });

async function* walk(storage: Source, except: string): AsyncGenerator<Entry, undefined> {
  for await (const entry of everyEntry(storage, "")) if (entry.key !== except) yield entry;
  return undefined;
}

function* chunks(page: readonly Entry[]): Generator<readonly Entry[]> {
  let part: Entry[] = [];
  let chars = 0;
  for (const entry of page) {
    part.push(entry);
    chars += entry.value.length;
    if (chars < MOST_CHARS) continue;
    yield part;
    [part, chars] = [[], 0];
  }
  if (part.length > 0) yield part;
}
