/** Checks the conditions (`if`) of a commit. */
import type { Change } from "../../../core/ports/storage.ts";

/** Returns the keys whose condition does not hold, judged by what was stored before the commit. Empty when all hold. */
export function unmet(changes: readonly Change[], get: (key: string) => string | undefined): readonly string[] {
  let keys: string[] | undefined;
  for (const change of changes) {
    if (change.if === undefined) continue;
    if (get(change.key) !== (change.if ?? undefined)) (keys ??= []).push(change.key);
  }
  return keys ?? [];
}
