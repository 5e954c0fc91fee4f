/** The changes of one commit on their way between the threads of a relay. */
import { flatten, type Change, type FlatChanges } from "../../model/change.ts";

export type { FlatChanges };

export function flat(changes: readonly Change[]): FlatChanges {
  const [codes, texts]: [number[], string[]] = [[], []];
  flatten(changes, codes, texts);
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
