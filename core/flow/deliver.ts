/**
 * The attempts of one delivery, while this node holds its lease.
 *
 * p-retry owns the loop, the count and the abort; the retry policy (pure) owns the times. Each result is committed
 * inside the attempt, with its next time, before p-retry sees it: p-retry drops a success when the abort fires meanwhile.
 */
import pRetry from "p-retry";
import type { Attempt } from "../model/attempt.ts";
import type { Delivery, Due } from "../model/delivery.ts";
import { LeaseLostError } from "../model/errors.ts";
import { ordinalTime } from "../model/ids.ts";
import { deliveryKey } from "../model/keys.ts";
import type { RetryOptions, Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log, Metrics } from "../ports/plugin.ts";
import type { Change, Lease, Storage } from "../ports/storage.ts";
import { isQuiet, NotDelivered } from "./not-delivered.ts";
import type { HotEvents, Loaded } from "./hot.ts";
import { judge, type Outcome } from "./outcome.ts";
import { persist } from "./persist.ts";
import { decodeDelivery, deliveredChanges, dueOf, endedChanges, freshDelivery, movedChanges } from "./records.ts";
import type { Send } from "./send.ts";
import { createSettle } from "./settle.ts";
import type { Slots } from "./slots.ts";
import { endedBy } from "./standing.ts";
import { createTell, type Seen } from "./tell.ts";
import type { Directory } from "./directory.ts";

/**
 * What storage said of the lease and the subscription holds for so long, ms; a process that was stopped meanwhile, or
 * cut off, asks again. So a change that other nodes cannot be told of holds there too once this is over.
 */
export const FRESH_MS = 5_000;

/** The most attempts that any policy may ask for. */
const MOST_ATTEMPTS = 5;

/** Changes for a commit of somebody else, and what to do when it is done. */
export interface Notice {
  readonly changes: readonly Change[];
  committed(): void;
}

export type Gate = (sub: Subscription) => Promise<number | undefined> | number | undefined;

export interface DeliverDeps {
  readonly storage: Pick<Storage, "getItem" | "queue">;
  readonly directory: Directory;
  readonly hot: HotEvents;
  readonly send: Send;
  readonly slots: Slots;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly retry: RetryOptions;
  /** Longest wait that is held under the lease, ms. */
  readonly holdMs: number;
  readonly mostHeld: number;
  /** The endpoint answered 410: its subscription ends here. */
  readonly gone: (keyId: string, subscriptionId: string, eventType: string) => Promise<void>;
  /** Asked before each attempt, in order: until when it must wait (epoch ms), or `undefined` when it may be made. */
  readonly gates: readonly Gate[];
  readonly seen: readonly Seen[];
  /** The receiver has asked for rest until then, epoch ms. */
  readonly rests?: (subscriptionId: string, until: number) => void;
  /** What else is to be stored with a failed delivery: the operational event that tells of it. */
  readonly notice: (sub: Subscription, loaded: Loaded, failed: Delivery) => Promise<Notice | undefined>;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * Makes the attempts that are left, one slot being taken already. Resolves when the delivery has ended, went back to the
 * queue, or was lost; the slot is given back by then. When `draining` aborts, waits end at once and their deliveries go
 * back with the times that they wait for; requests under way go on.
 * @throws a fault of ours: the delivery is as it was, and the lease still held
 */
export type Deliver = (lease: Lease, signal: AbortSignal, draining?: AbortSignal) => Promise<void>;

export function createDeliver(deps: DeliverDeps): Deliver {
  const { storage, directory, hot, send, slots, clock, log, metrics } = deps;
  const tell = createTell(deps);
  let heldWaits = 0;

  async function load(line: Due): Promise<Delivery | undefined> {
    // Never tried and never moved: nothing but the accept itself has been written.
    if (line.attempts === 0 && line.cycle === 0 && line.dueAt === ordinalTime(line.ordinal)) return undefined;
    const text = await storage.getItem(deliveryKey(line.subscriptionId, line.ordinal));
    return text === undefined ? undefined : decodeDelivery(text);
  }

  return async function deliver(lease, signal, draining) {
    const { keyId, subscriptionId, ordinal, generation, cycle } = lease;
    let line: Due = lease;
    let delivery: Delivery | undefined;
    let loaded: Loaded | undefined;
    let hasSlot = true;
    /** Counted among the waits that are held. */
    let holding = false;
    const settle = createSettle(lease, { storage, clock, signal, log });

    async function attempt(): Promise<void> {
      loaded ??= await hot.load(keyId, ordinal);
      delivery ??= freshDelivery(line, loaded.event.id);
      const sub = await directory.get(keyId, subscriptionId);
      const ended = endedBy(sub, generation);
      if (ended !== undefined) {
        await settle(endedChanges(line, { ...delivery, ...ended, nextAttemptAt: undefined, updatedAt: clock.now() }));
        return metrics.count("deliveries", { outcome: ended.status });
      }
      await admission(sub as Subscription);
      // The last look before the first byte: the lease, on every node's word, and the subscription as it is now.
      const asked = clock.monotonic();
      if (!(await storage.queue.extend(lease))) throw new LeaseLostError();
      if ((await directory.get(keyId, subscriptionId)) !== sub) return await attempt();
      if (clock.monotonic() - asked > FRESH_MS) return await attempt();
      const number = delivery.attempts.length + 1;
      const sent = await send(sub as Subscription, loaded, { cycle, number }, signal);
      const now = clock.now();
      const retry = sub?.retry ?? deps.retry;
      const outcome = judge(sent.reply, { attempt: number, retry, now, random: deps.random() });
      delivery = { ...delivery, attempts: [...delivery.attempts, sent.attempt], updatedAt: now };
      await record(sub as Subscription, delivery, sent.attempt, outcome);
    }

    /** A gate that is shut: the delivery goes back as it was, and nothing of its subscription is claimed until then. */
    async function admission(sub: Subscription): Promise<void> {
      for (const gate of deps.gates) {
        const until = await gate(sub);
        if (until === undefined) continue;
        await storage.queue.pause(subscriptionId, until);
        await storage.queue.release(lease);
        throw new NotDelivered(until, false);
      }
    }

    /** Commits what came of an attempt. @throws NotDelivered after the commit, when another attempt is to follow */
    async function record(sub: Subscription, now: Delivery, made: Attempt, outcome: Outcome): Promise<void> {
      switch (outcome.kind) {
        case "delivered":
          delivery = { ...now, status: "delivered", nextAttemptAt: undefined };
          await settleOffWire(deliveredChanges(line, delivery));
          break;
        case "gone":
        case "exhausted":
          delivery = {
            ...now,
            status: "failed",
            reason: outcome.kind === "gone" ? "endpoint_gone" : "exhausted",
            nextAttemptAt: undefined,
          };
          await end(sub, delivery);
          if (outcome.kind === "gone") {
            const { type } = (loaded as Loaded).event;
            await persist(() => deps.gone(keyId, subscriptionId, type), { clock, signal, log });
          }
          break;
        case "retry": {
          delivery = { ...now, nextAttemptAt: outcome.at };
          const next = dueOf(delivery, outcome.at);
          const held = outcome.at - now.updatedAt <= deps.holdMs && hold();
          await settle(movedChanges(line, next, delivery), held ? { keep: next } : { next });
          line = next;
          tell(sub, delivery, made, outcome, loaded?.event.traceparent);
          await pause(outcome.pauseUntil);
          throw new NotDelivered(outcome.at, held);
        }
      }
      tell(sub, delivery as Delivery, made, outcome, loaded?.event.traceparent);
      if (outcome.kind === "exhausted") await pause(outcome.pauseUntil);
    }

    /** Only what went well: any other outcome may ask for rest, and keeps its slot until that is known. */
    async function settleOffWire(changes: readonly Change[]): Promise<void> {
      const early = slots.giveEarly(subscriptionId);
      hasSlot = !early;
      try {
        await settle(changes);
      } finally {
        if (early) slots.stored(subscriptionId);
      }
    }

    /** A failure is told of in its own commit, to subscriptions that ask for operational events. */
    async function end(sub: Subscription, failed: Delivery): Promise<void> {
      const told = await deps.notice(sub, loaded as Loaded, failed);
      await settle([...endedChanges(line, failed), ...(told?.changes ?? [])]);
      told?.committed();
    }

    const pause = async (until: number | undefined): Promise<void> => {
      if (until === undefined) return;
      deps.rests?.(subscriptionId, until);
      await storage.queue.pause(subscriptionId, until);
    };

    function giveSlot(): void {
      if (!hasSlot) return;
      hasSlot = false;
      slots.give(subscriptionId);
    }

    /** A held wait keeps its lease but gives back its slot and drops the body. */
    async function wait(until: number): Promise<void> {
      loaded = undefined;
      giveSlot();
      const ends = draining === undefined ? signal : AbortSignal.any([signal, draining]);
      try {
        await clock.sleep(Math.min(until, clock.now() + deps.holdMs), ends);
        await slots.wait(subscriptionId, ends);
        hasSlot = true;
      } catch {
        await storage.queue.release(lease, until);
        throw new NotDelivered(until, false);
      } finally {
        unhold();
      }
    }

    function hold(): boolean {
      if (heldWaits >= deps.mostHeld) return false;
      heldWaits++;
      return (holding = true);
    }

    function unhold(): void {
      if (holding) heldWaits--;
      holding = false;
    }

    try {
      delivery = await load(line);
      await pRetry(attempt, {
        retries: Math.max(0, MOST_ATTEMPTS - lease.attempts - 1),
        minTimeout: 0,
        factor: 1,
        signal,
        onFailedAttempt: async ({ error }) => {
          if (!(error instanceof NotDelivered) || !error.held) throw error;
          await wait(error.at);
        },
      });
    } catch (error) {
      if (!isQuiet(error)) throw error;
    } finally {
      giveSlot();
      unhold();
    }
  };
}
