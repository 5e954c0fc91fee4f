/** Stores suspensions, so that they outlive the process: written when one begins, restored at a start. */
import { hash } from "node:crypto";
import { DAMAGED, unlessDamaged } from "../model/kind.ts";
import { EXPIRY, SUSPENSION } from "../model/schema.ts";
import type { Change, Counters, Storage } from "../ports/storage.ts";

export type SuspensionStorage = Pick<Storage, "getItem" | "range" | "commit">;

const PAGE = 1_000;

/** Writes it with its expiry; replaces an older one of the same key, with its expiry. */
export async function storeSuspension(
  storage: SuspensionStorage,
  key: string,
  { strikes, forMs }: { readonly strikes: number; readonly forMs: number },
  forgetMs: number,
  now: number,
): Promise<void> {
  const target = SUSPENSION.key({ hash: hash("sha256", key, "base64url") });
  const before = unlessDamaged(SUSPENSION.read(await storage.getItem(target)));
  const record = { key, strikes, struckAt: now, until: now + forMs, forgetAt: now + Math.max(forgetMs, forMs) };
  const changes: Change[] = [
    { op: "put", key: target, value: SUSPENSION.write(record) },
    EXPIRY.put({ at: record.forgetAt, target }, ""),
  ];
  if (before !== undefined && before.forgetAt !== record.forgetAt)
    changes.push(EXPIRY.delete({ at: before.forgetAt, target }));
  await storage.commit(changes);
}

/**
 * Resolves to how many still last.
 * @param holds says of a counter that its suspensions are in force
 */
export async function loadSuspensions(
  storage: SuspensionStorage,
  restore: NonNullable<Counters["restore"]>,
  now: number,
  forgetMs: number,
  holds: (key: string) => boolean,
): Promise<number> {
  let lasting = 0;
  let after: string | undefined;
  for (;;) {
    const page = await storage.range(SUSPENSION.key({ hash: "" }), { limit: PAGE, after });
    for (const { value } of page) {
      const one = SUSPENSION.read(value);
      if (one === DAMAGED || now >= one.forgetAt || !holds(one.key)) continue;
      // A wall clock that was set back must not lengthen it.
      const leftMs = Math.max(0, Math.min(one.until - now, one.until - one.struckAt));
      restore(one.key, { strikes: one.strikes, leftMs, ageMs: Math.min(forgetMs, Math.max(0, now - one.struckAt)) });
      if (leftMs > 0) lasting++;
    }
    after = page.at(-1)?.key;
    if (page.length < PAGE) return lasting;
  }
}
