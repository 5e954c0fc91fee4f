/** A change of a commit, and changes as two flat lists, in which they cross to another thread. */

/**
 * One change of a commit. `if` makes it conditional: `null` requires that the key is absent, a text that the value is
 * exactly that text. `check` tests the condition and changes nothing.
 */
export type Change =
  | { readonly op: "put"; readonly key: string; readonly value: string; readonly if?: string | null }
  | { readonly op: "delete"; readonly key: string; readonly if?: string }
  | { readonly op: "check"; readonly key: string; readonly if: string | null };

/** Texts in an array cross to another thread for half of what objects cost. */
export interface FlatChanges {
  /** The operation (put 1, delete 2, check 3) + 4 × its condition (none 0, must be absent 1, must be a text 2). */
  readonly codes: readonly number[];
  /** The key, the value of a put, and the text of a condition. */
  readonly texts: readonly string[];
}

/** Appends changes to the lists of a `FlatChanges`. */
export function flatten(changes: readonly Change[], codes: number[], texts: string[]): void {
  for (const change of changes) {
    const condition = change.if === undefined ? 0 : change.if === null ? 4 : 8;
    texts.push(change.key);
    if (change.op === "put") {
      texts.push(change.value);
      codes.push(1 + condition);
    } else codes.push((change.op === "delete" ? 2 : 3) + condition);
    if (condition === 8) texts.push(change.if as string);
  }
}
