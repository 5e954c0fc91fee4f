/** Reads what a plug-in throws: it may be anything, and may throw when it is read. */

const UNREADABLE = "something that cannot be read";

/** Returns `TypeError: no such queue`, or the message alone. Never throws. */
export function thrownText(thrown: unknown, named = true): string {
  try {
    return thrown instanceof Error ? `${named ? `${thrown.name}: ` : ""}${thrown.message}` : String(thrown);
  } catch {
    return UNREADABLE;
  }
}

/** Returns an error that everybody can read: the plug-in's own, where it is one. */
export function thrownError(thrown: unknown): Error {
  const text = thrownText(thrown);
  return thrown instanceof Error && text !== UNREADABLE ? thrown : new Error(text);
}
