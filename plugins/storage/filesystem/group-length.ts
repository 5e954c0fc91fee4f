/** Decides how many commits share one fsync. */
import type { Change } from "../../../core/ports/storage.ts";

/** Most commits of a group, and about how many characters of them; a single commit may be longer. */
const GROUP = 512;
const GROUP_CHARS = 8 << 20;

/** Returns how many of the first commits go together. */
export function groupLength(pending: readonly { readonly changes: readonly Change[] }[]): number {
  let chars = 0;
  let count = 0;
  for (const { changes } of pending) {
    if (count >= GROUP || chars >= GROUP_CHARS) break;
    for (const change of changes) if (change.op === "put") chars += change.value.length;
    count++;
  }
  return count;
}
