/**
 * Shortens what a clock that was ahead has stored for longer than its rule could have asked for: ids of erased events, and
 * requests with an Idempotency-Key, which would stay taken until the clock gets there.
 */
import { expiryKey, parseExpiryKey } from "../model/keys.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { ERASED_ID_MS as KEPT_MS, erasedAt, erasedText } from "./erased-id.ts";
import { parseRemembered, rememberedText } from "./remembered-request.ts";
import { tryCommit } from "./try-commit.ts";

/** Both kinds are kept for a day. One that ends later than this, ms, was stored by a clock that was ahead by a day or more. */
const IMPOSSIBLE_MS = 2 * KEPT_MS;
const PAGE = 500;

/** Returns the row as it would be if it had been stored now; `undefined`: it is of another kind, or damaged. */
function storedNow(target: string, text: string, now: number): string | undefined {
  if (target.startsWith("eventid:")) return erasedAt(text) === undefined ? undefined : erasedText(now);
  const request = target.startsWith("idempotency:") ? parseRemembered(text) : undefined;
  return request && rememberedText({ ...request, until: now + KEPT_MS });
}

/** @returns how many were shortened, to a day from now */
export async function shortenExpiries(
  storage: Pick<Storage, "getItem" | "range" | "commit">,
  now: number,
): Promise<number> {
  let shortened = 0;
  for (let after = expiryKey(now + IMPOSSIBLE_MS, ""); ;) {
    const page: readonly Entry[] = await storage.range("expiry:", { after, limit: PAGE });
    for (const { key, value } of page) {
      const { target } = parseExpiryKey(key);
      if (!/^(?:eventid|idempotency):/.test(target)) continue;
      const text = await storage.getItem(target);
      const next = text === undefined ? undefined : storedNow(target, text, now);
      if (text === undefined || next === undefined) continue;
      const changes: readonly Change[] = [
        { op: "delete", key, if: value },
        { op: "put", key: target, value: next, if: text },
        { op: "put", key: expiryKey(now + KEPT_MS, target), value: "" },
      ];
      if (await tryCommit(storage, changes)) shortened++;
    }
    if (page.length < PAGE) return shortened;
    after = page.at(-1)?.key as string;
  }
}
