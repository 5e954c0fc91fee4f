/**
 * Deletes a subscription: a tombstone first, then its attempts under way. A repeat finishes what was interrupted in
 * between.
 */
import { ConflictError } from "../model/errors.ts";
import { COUNT, EXPIRY, SUBSCRIPTION } from "../model/schema.ts";
import { TOMBSTONE_MS, type Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Change, Storage } from "../ports/storage.ts";
import type { Actor, AuditLine } from "../records/audit-trail.ts";
import { loadOutlined, retryOnConflict } from "../records/optimistic-update.ts";
import { readTexts } from "../records/damage.ts";
import { endingMark, type Endings } from "../records/endings.ts";
import { countLive } from "../records/subscription-cache.ts";
import { isOutline, readSubscription } from "../records/subscription-record.ts";
import { forgetSequences } from "./ordering.ts";

interface DeletionDeps {
  readonly storage: Storage;
  readonly clock: Pick<Clock, "now">;
  /** Aborts the attempts under way for a subscription, on every node; resolves when they have ended. */
  readonly abort: (subscriptionId: string) => Promise<void>;
  readonly endings: Pick<Endings, "begin"> | undefined;
  readonly audit: (keyId: string, actor: Actor, line: Pick<AuditLine, "action" | "target" | "detail">) => Change;
}

export function createDeletion(deps: DeletionDeps): (keyId: string, id: string, actor: Actor) => Promise<void> {
  const { storage, clock, abort, endings, audit } = deps;

  /** Returns the tombstone's text while the deletion is not finished. */
  async function endingOf(keyId: string, id: string): Promise<string | undefined> {
    const key = SUBSCRIPTION.key({ keyId, id });
    const [text] = await readTexts(storage, [key]);
    return text !== undefined && readSubscription(text, key).ending === true ? text : undefined;
  }

  return async (keyId, id, actor) => {
    const ending = await retryOnConflict(async () => {
      const began = await endingOf(keyId, id);
      if (began !== undefined) return began;
      const { text, now } = await loadOutlined(storage, keyId, id);
      const count = await storage.getItem(COUNT.key({ keyId }));
      const live = await countLive(storage, keyId, count);
      const { headers: _h, clientCertificate: _c, oauth2: _o, disabledReason: _reason, ...rest } = now;
      const at = clock.now();
      const generation = now.generation + 1;
      const stamp = { updatedAt: at, deletedAt: at, generation, ending: true } as const;
      const gone: Subscription = { ...rest, url: "", secrets: [], ...stamp };
      await storage.commit([
        SUBSCRIPTION.put({ keyId, id }, gone, text),
        COUNT.put({ keyId }, String(Math.max(0, live - 1)), count ?? null),
        EXPIRY.put({ at: at + TOMBSTONE_MS, target: SUBSCRIPTION.key({ keyId, id }) }, ""),
        endingMark(gone),
        // Of a damaged one nobody knows whether it was ordered.
        ...(await forgetSequences(storage, isOutline(now) ? { ...now, ordered: true, orderBy: "" } : now, at)),
        audit(keyId, actor, { action: "subscription.deleted", target: id }),
      ]);
      return SUBSCRIPTION.write(gone);
    });
    // The tombstone stops every attempt that has not begun. These calls end the ones that have, here and on the other
    // nodes.
    const ends = await Promise.allSettled([abort(id), storage.queue.cancel(id)]);
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    endings?.begin(keyId, id);
    const { ending: _ending, ...ended } = readSubscription(ending, SUBSCRIPTION.key({ keyId, id }));
    const change = SUBSCRIPTION.put({ keyId, id }, ended, ending);
    await storage.commit([change]).catch((error: unknown) => {
      // A simultaneous repeat has finished it.
      if (!(error instanceof ConflictError)) throw error;
    });
  };
}
