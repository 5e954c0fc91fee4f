/**
 * Gives the deliveries of ordered subscriptions their places, in the commit that accepts their events.
 *
 * Publications to one key take turns on this node, so that they do not refuse each other's commits; those of other nodes
 * may, and are repeated then.
 */
import type { Due } from "../model/delivery.ts";
import type { Storage } from "../ports/storage.ts";
import { freshDelivery, putDelivery } from "../records/delivery-records.ts";
import { enterSequences, type OrderedDue } from "../records/sequences.ts";
import type { OrderedDelivery, Writing } from "./write-event.ts";

/** How often a commit that lost its places to other nodes is repeated. */
export const ORDER_ROUNDS = 256;

export interface Placing {
  /**
   * Adds the deliveries of `writing` that go in order to its changes, with their places.
   * @returns a function to call when the commit has ended
   */
  place(writing: Writing, ordered: readonly OrderedDelivery[]): Promise<() => void>;
}

export function createPlacing(storage: Pick<Storage, "getMany">): Placing {
  /** The last publication of each key that has a turn, or waits for one. */
  const turns = new Map<string, Promise<void>>();

  /** Resolves when it is the turn of this publication. */
  async function takeTurn(keyId: string): Promise<() => void> {
    const before = turns.get(keyId);
    const { promise, resolve } = Promise.withResolvers<void>();
    turns.set(keyId, promise);
    await before;
    return () => {
      if (turns.get(keyId) === promise) turns.delete(keyId);
      resolve();
    };
  }

  return {
    async place(writing, ordered) {
      const given: (() => void)[] = [];
      const end = (): void => {
        for (const give of given.splice(0)) give();
      };
      // In one order, so that two publications never wait for each other.
      const keys = [...new Set(ordered.map(({ event }) => event.keyId))].toSorted();
      for (const keyId of keys) given.push(await takeTurn(keyId));
      try {
        const { placed, heads, changes } = await enterSequences(storage, ordered.map(lineOf));
        for (const change of changes) writing.changes.push(change);
        for (const [i, line] of placed.entries()) {
          const { event } = ordered[i] as OrderedDelivery;
          writing.changes.push(putDelivery(freshDelivery(line, event.id)));
        }
        for (const head of heads) writing.dues.push(head);
        if (placed.length > heads.length) writing.waiting = placed.filter((line) => !heads.includes(line));
      } catch (error) {
        end();
        throw error;
      }
      return end;
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
