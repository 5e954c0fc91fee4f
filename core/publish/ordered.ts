/**
 * Gives the deliveries of ordered subscriptions their places, in the commit that accepts their events.
 *
 * Publications to one key take turns on this node, so that they do not refuse each other's commits; those of other nodes
 * may, and are repeated then. While one waits for its turn, it takes no room from other keys.
 */
import type { Due } from "../model/delivery.ts";
import { Problem } from "../model/problem.ts";
import type { Clock } from "../ports/clock.ts";
import type { Storage } from "../ports/storage.ts";
import { freshDelivery, putDelivery } from "../records/delivery-records.ts";
import { enterSequences, type OrderedDue } from "../records/sequences.ts";
import { RETRY_AFTER_S, SLOW_MS } from "./rules.ts";
import type { OrderedDelivery, Writing } from "./write-event.ts";

/** How often a commit that lost its places to other nodes is repeated. */
export const ORDER_ROUNDS = 256;

interface Placing {
  /**
   * Resolves when it is the turn of a publication to these keys.
   * @param aside waits without room at the storage, and takes room again then
   * @returns a function to call when the publication is stored or has failed
   * @throws Problem PROVIDER_BACKPRESSURE while others have waited too long
   */
  turn(keys: readonly string[], aside: (wait: Promise<void>) => Promise<void>): Promise<() => void>;
  /** Adds the deliveries that go in order to the changes of `writing`, with their places. @throws StorageError */
  place(writing: Writing, ordered: readonly OrderedDelivery[]): Promise<void>;
}

export function createPlacing(storage: Pick<Storage, "getMany" | "range">, clock: Pick<Clock, "monotonic">): Placing {
  /** Who waits for each key whose turn somebody has. */
  const lines = new Map<string, { readonly since: number; readonly go: () => void }[]>();

  /** @returns no promise when there is no wait */
  function take(keyId: string): Promise<void> | undefined {
    const line = lines.get(keyId);
    if (line === undefined) return void lines.set(keyId, []);
    const [first] = line;
    if (first !== undefined && clock.monotonic() - first.since > SLOW_MS) {
      const detail = "Too much is being published in order on this API key. Publish again later.";
      throw new Problem("PROVIDER_BACKPRESSURE", detail, { retryAfter: RETRY_AFTER_S });
    }
    return new Promise((go) => void line.push({ since: clock.monotonic(), go }));
  }

  function give(keyId: string): void {
    const next = lines.get(keyId)?.shift();
    if (next === undefined) lines.delete(keyId);
    else next.go();
  }

  return {
    async turn(keys, aside) {
      const taken: string[] = [];
      const end = (): void => {
        for (const keyId of taken.splice(0)) give(keyId);
      };
      try {
        // In one order, so that two publications never wait for each other.
        for (const keyId of [...new Set(keys)].toSorted()) {
          const waiting = take(keyId);
          if (waiting !== undefined) await aside(waiting);
          taken.push(keyId);
        }
      } catch (error) {
        end();
        throw error;
      }
      return end;
    },

    async place(writing, ordered) {
      const { placed, heads, changes } = await enterSequences(storage, ordered.map(lineOf));
      for (const change of changes) writing.changes.push(change);
      for (const [i, line] of placed.entries()) {
        const { event } = ordered[i] as OrderedDelivery;
        writing.changes.push(putDelivery(freshDelivery(line, event.id)));
      }
      for (const head of heads) writing.dues.push(head);
      const first = new Set(heads);
      if (placed.length > heads.length) writing.waiting = placed.filter((line) => !first.has(line));
    },
  };
}

const lineOf = ({ event, sub, sequence }: OrderedDelivery): OrderedDue =>
  ({
    subscriptionId: sub.id,
    keyId: event.keyId,
    ordinal: event.ordinal,
    dueAt: event.acceptedAt,
    generation: sub.generation,
    cycle: 0,
    attempts: 0,
    waitMs: 0,
    order: { sequence, place: 0 },
  }) satisfies Due;
