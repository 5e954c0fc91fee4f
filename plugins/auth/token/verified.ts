/** Remembers verified tokens by hash, so that a busy client's token is not verified at every request. */
import { hash } from "node:crypto";

interface VerifiedTokens<T> {
  get(token: string, now: number): T | undefined;
  set(token: string, value: T, now: number): void;
}

/**
 * Bounded, and each entry lasts at most `forMs`, so that a withdrawn signing key soon counts no more. The caller checks
 * each time whether the token is timely. `now` is monotonic.
 */
export function verifiedTokens<T>(capacity = 5_000, forMs = 60_000): VerifiedTokens<T> {
  const held = new Map<string, { readonly value: T; readonly until: number }>();
  const keyOf = (token: string): string => hash("sha256", token, "base64url");
  return {
    get(token, now) {
      if (held.size === 0) return undefined;
      const key = keyOf(token);
      const found = held.get(key);
      if (found === undefined || now < found.until) return found?.value;
      held.delete(key);
      return undefined;
    },
    set(token, value, now) {
      if (held.size >= capacity) {
        const oldest = held.keys().next();
        if (!oldest.done) held.delete(oldest.value);
      }
      held.set(keyOf(token), { value, until: now + forMs });
    },
  };
}
