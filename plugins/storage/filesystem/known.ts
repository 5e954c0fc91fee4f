/** Reads the values that the conditions of commits ask about, before any condition is judged. */
import type { Change } from "../../../core/ports/storage.ts";

interface Known {
  readonly values: ReadonlyMap<string, string | undefined>;
  /** Why a value could not be read. */
  readonly unreadable: ReadonlyMap<string, Error>;
}

export async function readConditions(
  commits: readonly { readonly changes: readonly Change[] }[],
  get: (key: string) => Promise<string | undefined>,
): Promise<Known> {
  const values = new Map<string, string | undefined>();
  const unreadable = new Map<string, Error>();
  const reading: Promise<void>[] = [];
  for (const { key, if: wanted } of commits.flatMap(({ changes }) => changes)) {
    if (wanted === undefined || values.has(key)) continue;
    values.set(key, undefined);
    const keep = (value: string | undefined): void => void values.set(key, value);
    reading.push(get(key).then(keep, (error: Error) => void unreadable.set(key, error)));
  }
  await Promise.all(reading);
  return { values, unreadable };
}
