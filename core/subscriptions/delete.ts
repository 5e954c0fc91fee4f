/** Deletes a subscription: a tombstone first, then its attempts. A repeat finishes what was interrupted. */
import { noSuch } from "../model/problem.ts";
import { SEQUENCES_EACH } from "../model/delivery.ts";
import { COUNT, EXPIRY, PASSED, SEQUENCE, SUBSCRIPTION } from "../model/schema.ts";
import { isLive, TOMBSTONE_MS, type Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Change, Storage } from "../ports/storage.ts";
import type { Actor } from "../records/audit-trail.ts";
import { transact, tryCommit } from "../records/transaction.ts";
import { endingMark, type Endings } from "../records/endings.ts";
import { countLive } from "../records/subscription-cache.ts";
import { isOutline } from "../records/subscription-record.ts";
import { readIn } from "./revise.ts";
import type { AuditOf } from "./rotate.ts";

interface DeletionDeps {
  readonly storage: Storage;
  readonly clock: Pick<Clock, "now">;
  /** Aborts the attempts under way for a subscription, on every node; resolves when they have ended. */
  readonly abort: (subscriptionId: string) => Promise<void>;
  readonly endings: Pick<Endings, "begin"> | undefined;
  readonly audit: AuditOf;
}

export function createDeletion(deps: DeletionDeps): (keyId: string, id: string, actor: Actor) => Promise<void> {
  const { storage, clock, abort, endings, audit } = deps;

  return async (keyId, id, actor) => {
    const ending = await transact(storage, async (tx) => {
      const now = await readIn(tx, keyId, id);
      if (now?.ending === true) return now;
      if (!isLive(now)) throw noSuch("subscription");
      const live = await countLive(storage, keyId, await tx.text(COUNT.key({ keyId })));
      const { headers: _h, clientCertificate: _c, oauth2: _o, disabledReason: _reason, ...rest } = now;
      const at = clock.now();
      const generation = now.generation + 1;
      const stamp = { updatedAt: at, deletedAt: at, generation, ending: true } as const;
      const gone: Subscription = { ...rest, url: "", secrets: [], ...stamp };
      tx.put(SUBSCRIPTION, { keyId, id }, gone);
      tx.put(COUNT, { keyId }, String(Math.max(0, live - 1)));
      tx.add(
        EXPIRY.put({ at: at + TOMBSTONE_MS, target: SUBSCRIPTION.key({ keyId, id }) }, ""),
        endingMark(gone),
        // Of a damaged one nobody knows whether it was ordered.
        ...(await forgetSequences(storage, isOutline(now) ? { ...now, ordered: true, orderBy: "" } : now, at)),
        audit(keyId, actor, { action: "subscription.deleted", target: id }),
      );
      return gone;
    });
    // The tombstone stops every attempt that has not begun. These calls end the ones that have, here and on the other
    // nodes.
    const ends = await Promise.allSettled([abort(id), storage.queue.cancel(id)]);
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    endings?.begin(keyId, id);
    const { ending: _ending, ...ended } = ending;
    // Unless a simultaneous repeat has finished it.
    await tryCommit(storage, [SUBSCRIPTION.put({ keyId, id }, ended, SUBSCRIPTION.write(ending))]);
  };
}

/**
 * Returns the changes that have the sequences of a deleted subscription forgotten together with its tombstone: those that
 * there are, and those that an event which is being accepted now may still begin.
 */
async function forgetSequences(
  storage: Pick<Storage, "range">,
  { keyId, id, ordered, orderBy }: Pick<Subscription, "keyId" | "id" | "ordered" | "orderBy">,
  at: number,
): Promise<readonly Change[]> {
  const rows = await storage.range(SEQUENCE.under({ keyId, subscriptionId: id }), { limit: SEQUENCES_EACH });
  const now = ordered !== true ? 0 : orderBy === undefined ? 1 : SEQUENCES_EACH;
  const each = new Set(rows.map(({ key }) => key));
  for (let sequence = 0; sequence < now; sequence++) each.add(SEQUENCE.key({ keyId, subscriptionId: id, sequence }));
  return [...each]
    .flatMap((key) => [key, PASSED.key(SEQUENCE.id(key))])
    .map((key) => EXPIRY.put({ at: at + TOMBSTONE_MS, target: key }, ""));
}
