/** Keeps what the tests of a file or of a `describe` share. */
import { afterAll } from "vitest";

/** Disposes of it after the last of them; of several, in the reverse order. */
export function kept<T extends AsyncDisposable>(made: T): T {
  afterAll(() => made[Symbol.asyncDispose]());
  return made;
}
