/** Decides how many commits are written together. */
import type { Change } from "../../../core/ports/storage.ts";

/** About how many characters a group has; a single commit may be longer. */
const GROUP_CHARS = 8 << 20;

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
