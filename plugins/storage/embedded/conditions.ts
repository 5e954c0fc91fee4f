/** The conditional half of a commit: which `if` did not hold. */
import type { Change } from "../../../core/ports/storage.ts";

/** Every condition is judged against what was stored before the commit. Empty when all of them hold. */
export function unmet(changes: readonly Change[], get: (key: string) => string | undefined): readonly string[] {
  let keys: string[] | undefined;
  for (const change of changes) {
    if (change.if === undefined) continue;
    if (get(change.key) !== (change.if ?? undefined)) (keys ??= []).push(change.key);
  }
  return keys ?? [];
}
