/** Changes of a commit as two flat lists: texts in an array cross to another thread for half of what objects cost. */
import type { Change } from "../../ports/storage.ts";

export interface FlatChanges {
  /** The operation (put 1, delete 2, check 3) + 4 × its condition (none 0, must be absent 1, must be a text 2). */
  readonly codes: readonly number[];
  /** The key, the value of a put, and the text of a condition. */
  readonly texts: readonly string[];
}

export function flat(changes: readonly Change[]): FlatChanges {
  const codes: number[] = [];
  const texts: string[] = [];
  for (const change of changes) {
    const condition = change.if === undefined ? 0 : change.if === null ? 4 : 8;
    texts.push(change.key);
    if (change.op === "put") {
      texts.push(change.value);
      codes.push(1 + condition);
    } else codes.push((change.op === "delete" ? 2 : 3) + condition);
    if (condition === 8) texts.push(change.if as string);
  }
  return { codes, texts };
}

export function unflat({ codes, texts }: FlatChanges): readonly Change[] {
  let at = 0;
  const text = (): string => texts[at++] as string;
  return codes.map((code): Change => {
    const key = text();
    const op = code & 3;
    const value = op === 1 ? text() : "";
    const condition = code >> 2 === 0 ? undefined : code >> 2 === 1 ? null : text();
    if (op === 3) return { op: "check", key, if: condition ?? null };
    if (op === 1) return condition === undefined ? { op: "put", key, value } : { op: "put", key, value, if: condition };
    return typeof condition === "string" ? { op: "delete", key, if: condition } : { op: "delete", key };
  });
}
