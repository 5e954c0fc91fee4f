/** Judges commits that are written together: each by what is stored and by what those before it write. */
import { ConflictError } from "../../../core/model/errors.ts";
import type { Change } from "../../../core/ports/storage.ts";

/** About how many characters a group has; a single commit may be longer. */
const GROUP_CHARS = 8 << 20;

export interface PendingCommit {
  readonly changes: readonly Change[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** A key and its new value; `null`: it is removed. */
export type KeyWrite = readonly [key: string, value: string | null];

interface JudgedGroup {
  /** The writes of each commit that is kept, in order. */
  readonly writes: readonly (readonly KeyWrite[])[];
  /** Answers all that are not answered yet. To be called once the writes are stored. */
  answer(): void;
}

/**
 * Rejects a commit at once when it conflicts with what is stored. One that conflicts only with a commit before it in the
 * group is answered after the writes: when they fail, the change that it conflicts with is not stored.
 * @param stored what is stored under a key that a condition names
 */
export function judgeGroup(group: readonly PendingCommit[], stored: (key: string) => string | undefined): JudgedGroup {
  const staged = new Map<string, string | null>();
  const now = (key: string): string | undefined => (staged.has(key) ? (staged.get(key) ?? undefined) : stored(key));
  const writes: (readonly KeyWrite[])[] = [];
  const answers: (() => void)[] = [];
  for (const { changes, resolve, reject } of group) {
    const failed = unmet(changes, now);
    if (failed.length > 0) {
      const certain = failed.filter((key) => !staged.has(key));
      if (certain.length > 0) reject(new ConflictError(certain));
      else answers.push(() => reject(new ConflictError(failed)));
      continue;
    }
    const own: KeyWrite[] = [];
    for (const change of changes) {
      if (change.op === "check") continue;
      const value = change.op === "put" ? change.value : null;
      own.push([change.key, value]);
      staged.set(change.key, value);
    }
    writes.push(own);
    answers.push(resolve);
  }
  return { writes, answer: () => answers.forEach((one) => one()) };
}

/** Returns the keys whose condition does not hold, judged by what was stored before the commit. Empty when all hold. */
export function unmet(changes: readonly Change[], get: (key: string) => string | undefined): readonly string[] {
  let keys: string[] | undefined;
  for (const change of changes) {
    if (change.if === undefined) continue;
    if (get(change.key) !== (change.if ?? undefined)) (keys ??= []).push(change.key);
  }
  return keys ?? [];
}

/** Returns how many of the first commits go together. @param most commits of a group */
export function groupLength(pending: readonly { readonly changes: readonly Change[] }[], most: number): number {
  let chars = 0;
  let count = 0;
  for (const { changes } of pending) {
    if (count >= most || chars >= GROUP_CHARS) break;
    for (const change of changes) if (change.op === "put") chars += change.value.length;
    count++;
  }
  return count;
}
