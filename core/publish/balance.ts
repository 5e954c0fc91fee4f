/**
 * Delays the answers to an API key whose deliveries fall behind: by what first attempts to its quick receivers would wait
 * beyond a second. Receivers that are slow, paused or down delay nobody, and one key never another.
 */
import { BoundedMap } from "../lib/bounded-map.ts";
import type { Due } from "../model/delivery.ts";
import { isFanoutQueue } from "../model/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Metrics } from "../ports/plugin.ts";
import type { Queue } from "../ports/storage.ts";

/** How long first attempts may wait, and the longest delay of an answer: publishers have time-outs. ms */
const LAG_MS = 1_000;
const DELAY_MS = 1_000;
/** How often a key is judged at most, ms. */
const LOOK_MS = 100;
/** The queue counts again only after this many times the duration of a count, so that counting does not become the work. */
const COUNT_SHARE = 20;
const KEYS = 10_000;

/** The first attempts of one subscription: those that wait, now and at the last look, and those begun since. */
interface Flow {
  waiting: number;
  before: number;
  begun: number;
  /** True once the queue has counted them since they fell behind; and when it may again, monotonic ms. */
  counted: boolean;
  again: number;
}
interface Key {
  lookedAt: number;
  delayMs: number;
  readonly flows: Map<string, Flow>;
}

export function createBalance(deps: {
  readonly clock: Pick<Clock, "monotonic">;
  readonly queue: Pick<Queue, "pending">;
  readonly metrics: Pick<Metrics, "count">;
  /** Returns true when a receiver answers quickly, and is neither paused nor limited to a rate of its own. @default none is */
  readonly isQuick?: (subscriptionId: string, keyId: string) => boolean;
}) {
  const { clock, queue, metrics, isQuick = () => false } = deps;
  const keys = new BoundedMap<Key>(KEYS, ({ flows }) => flows.size === 0);

  /** Corrects a count that holds what has ended without an attempt, or begun on another node. Never rejects. */
  async function count(id: string, flow: Flow): Promise<void> {
    const began = clock.monotonic();
    flow.again = Number.POSITIVE_INFINITY;
    flow.waiting = Math.min(flow.waiting, await queue.pending([id]).catch(() => 0));
    flow.counted = true;
    flow.again = clock.monotonic() + (clock.monotonic() - began) * COUNT_SHARE;
  }

  /** @param ms since the last look */
  function look(keyId: string, { flows }: Key, ms: number): number {
    let begun = 0;
    let late = 0;
    for (const [id, flow] of flows) {
      // How fast they begin is known only where something has waited all the time.
      const lagMs = flow.begun > 0 && flow.before > flow.begun ? (flow.waiting / flow.begun) * ms : 0;
      const behind = lagMs > LAG_MS;
      if (!behind) flow.counted = false;
      if (!behind || isQuick(id, keyId)) {
        if (behind && clock.monotonic() >= flow.again) void count(id, flow);
        begun += flow.begun;
        late += flow.begun * (flow.counted ? Math.min(lagMs, LAG_MS + DELAY_MS) : 0);
      }
      // A flow that does not move is forgotten: a receiver that is down, or a subscription that is gone.
      if (flow.begun === 0 && flow.waiting <= flow.before) flows.delete(id);
      flow.before = flow.waiting;
      flow.begun = 0;
    }
    return begun === 0 ? 0 : Math.max(0, Math.round(late / begun) - LAG_MS);
  }

  return {
    /** Counts deliveries that were just added, before one of them may begin. */
    added(dues: readonly Due[]): void {
      for (const { cycle, attempts, keyId, subscriptionId } of dues) {
        if (cycle > 0 || attempts > 0 || isFanoutQueue(subscriptionId)) continue;
        const { flows } =
          keys.get(keyId) ?? keys.add(keyId, { lookedAt: clock.monotonic(), delayMs: 0, flows: new Map() });
        const flow = flows.get(subscriptionId);
        if (flow !== undefined) flow.waiting++;
        else flows.set(subscriptionId, { waiting: 1, before: 0, begun: 0, counted: false, again: 0 });
      }
    },
    /** Counts a delivery whose attempt begins. */
    began({ cycle, attempts, keyId, subscriptionId }: Due): void {
      const flow = cycle > 0 || attempts > 0 ? undefined : keys.get(keyId)?.flows.get(subscriptionId);
      if (flow === undefined) return;
      flow.begun++;
      if (flow.waiting > 0) flow.waiting--;
    },
    /** Returns how long the answer to these events is delayed, which are stored, ms. */
    delayMs(accepted: readonly { readonly keyId: string }[]): number {
      const now = clock.monotonic();
      let longest = 0;
      for (const { keyId } of accepted) {
        const key = keys.get(keyId);
        if (key === undefined) continue;
        if (now - key.lookedAt >= LOOK_MS) {
          key.delayMs = look(keyId, key, now - key.lookedAt);
          key.lookedAt = now;
        }
        longest = Math.max(longest, key.delayMs);
      }
      if (longest > 0) metrics.count("accept_delay_seconds", undefined, longest / 1_000);
      return longest;
    },
  };
}
