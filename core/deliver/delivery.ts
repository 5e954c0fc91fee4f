/**
 * Runs the attempts of one delivery while this node holds its lease.
 *
 * p-retry owns the loop, the count and the abort; the retry policy (pure) owns the times. Each result is committed
 * inside the attempt, with its next time, before p-retry sees it: p-retry drops a success when the abort fires
 * meanwhile.
 */
import pRetry from "p-retry";
import type { Attempt, Outcome } from "../model/attempt.ts";
import type { Delivery, Due } from "../model/delivery.ts";
import { ConflictError, DamagedRecordError, LeaseLostError } from "../model/errors.ts";
import { DUE, SUBSCRIPTION } from "../model/schema.ts";
import { MOST_ATTEMPTS, type Subscription } from "../model/subscription.ts";
import type { Change, Lease } from "../ports/storage.ts";
import type { DeliveryDeps } from "./dependencies.ts";
import { endDamaged } from "./end-damaged.ts";
import { endFailed } from "./end-failed.ts";
import { askGates } from "./gates.ts";
import { settleEnd } from "./end-turn.ts";
import type { CachedEvent } from "./event-cache.ts";
import { judge } from "./outcome.ts";
import { afterFault } from "./own-faults.ts";
import { persist } from "../records/persist.ts";
import { dropDue, dueOf, endedChanges, freshDelivery, movedChanges, putDelivery } from "../records/delivery-records.ts";
import { settle } from "./settle.ts";
import { sendMade } from "./transform.ts";
import { isNamed, loadRecord } from "../records/load-record.ts";
import type { Slot } from "./slots.ts";
import { asEnded, countEnd, FRESH_MS } from "../records/ended-by.ts";
import { isSameVersion } from "../records/subscription-record.ts";

/** One object per delivery, with methods on the prototype, because closures cost more. */
export class DeliveryRun {
  readonly #lease: Lease;
  readonly #signal: AbortSignal;
  readonly #draining: AbortSignal | undefined;
  readonly #deps: DeliveryDeps;
  #line: Due;
  #delivery: Delivery | undefined;
  #loaded: CachedEvent | undefined;
  /** `EventCache.forgotten` when the event was last seen in storage. */
  #seen = 0;
  /** Monotonic ms at which the last attempt ended. */
  #answeredAt = 0;
  /** Undefined while the delivery has no slot. */
  #slot: Slot | undefined;
  /** True while it counts among the held waits. */
  #holding = false;

  constructor(lease: Lease, slot: Slot, signal: AbortSignal, draining: AbortSignal | undefined, deps: DeliveryDeps) {
    this.#lease = lease;
    this.#slot = slot;
    this.#signal = signal;
    this.#draining = draining;
    this.#deps = deps;
    this.#line = lease;
  }

  /** See `Deliver`. Call it once. */
  async run(): Promise<void> {
    try {
      this.#delivery = await loadRecord(this.#line, this.#deps.storage);
      await pRetry(() => this.#attempt(), {
        retries: Math.max(0, MOST_ATTEMPTS - this.#lease.attempts - 1),
        minTimeout: 0,
        factor: 1,
        signal: this.#signal,
        onFailedAttempt: async ({ error }) => {
          if (!(error instanceof NotDelivered) || !error.held) throw error;
          await this.#wait(error.at);
        },
      });
    } catch (error) {
      if (error instanceof DamagedRecordError) {
        const met = { lease: this.#lease, line: this.#line, known: this.#delivery };
        await endDamaged(error, met, this.#signal, this.#deps);
      } else if (!isExpectedEnd(error)) throw error;
    } finally {
      this.#giveSlot();
      this.#unhold();
      this.#deps.left?.(this.#lease.subscriptionId, this.#lease.ordinal);
    }
  }

  async #attempt(): Promise<void> {
    const { subscriptionCache, recipients, eventCache, clock, storage, send, random, faults } = this.#deps;
    const { away, pauses, rateLimit } = this.#deps;
    const { keyId, subscriptionId, ordinal, cycle } = this.#lease;
    if (this.#loaded === undefined) this.#seen = eventCache.forgotten;
    const loaded = this.#loaded ?? (await eventCache.load(keyId, ordinal));
    // A record that agrees with the line proves that the delivery is one of the event's.
    const proven = cycle > 0 || this.#delivery !== undefined;
    if (!proven && !(await isNamed(recipients, loaded.event, subscriptionId)))
      throw new DamagedRecordError("due", "misplaced", DUE.key(this.#line));
    this.#loaded = loaded;
    const delivery = (this.#delivery ??= freshDelivery(this.#line, loaded.event.id));
    const sub = await subscriptionCache.get(keyId, subscriptionId);
    const over = asEnded(delivery, sub);
    if (over !== undefined) return await this.#settleEnded(over);
    const waitMs = await askGates(pauses, sub as Subscription, ordinal);
    if (waitMs !== undefined) await this.#turnAway(waitMs);
    const limitMs = sub?.rateLimit === undefined ? undefined : await rateLimit(sub, ordinal);
    if (limitMs !== undefined) await this.#turnAway(limitMs, "hold");
    const turn = { cycle, number: delivery.attempts.length + 1 };
    const faulty = (error: unknown) => afterFault(error, this.#lease, turn, this.#signal, this.#deps);
    const transformed = sub?.transform !== undefined;
    const made = transformed ? await this.#deps.transform(sub, loaded, turn, this.#signal).catch(faulty) : loaded;
    // The receiver may have asked for a pause while the transform waited and ran. Of two waits it is the one that counts.
    const rest = transformed ? await askGates(pauses, sub, ordinal) : undefined;
    if (rest !== undefined) return await this.#turnAway(rest);
    if (typeof made === "number") return await this.#turnAway(made, "hold");
    // The last check before the first byte: the lease, as all nodes see it, and the subscription as it is now.
    const began = clock.monotonic();
    if (!(await storage.queue.extend(this.#lease))) throw new LeaseLostError();
    let again: Subscription | undefined;
    do {
      // Something was erased: the record of a wide event goes before its lines. The subscription may change during the read.
      if (eventCache.forgotten !== this.#seen) this.#seen = await eventCache.look(keyId, ordinal);
      again = await subscriptionCache.get(keyId, subscriptionId);
    } while (eventCache.forgotten !== this.#seen);
    if (!isSameVersion(again, sub) || clock.monotonic() - began > FRESH_MS) return await this.#attempt();
    this.#slot?.toward((sub as Subscription).url);
    const { reply, attempt } = await sendMade(send, sub as Subscription, made, turn, this.#signal).catch(faulty);
    this.#slot?.took(reply.kind === "response" && reply.status < 500 && reply.status !== 429);
    this.#answeredAt = clock.monotonic();
    if (reply.kind === "unavailable") await this.#turnAway(away.note(sub as Subscription, reply.detail));
    faults.clear(subscriptionId, ordinal);
    const now = clock.now();
    const retry = sub?.retry ?? this.#deps.retry;
    const outcome = judge(reply, { attempt: turn.number, retry, now, random: random() });
    const tried = { ...delivery, attempts: [...delivery.attempts, attempt], updatedAt: now };
    await this.#record(sub as Subscription, tried, attempt, outcome);
  }

  /** Gives it back, and claims nothing of its subscription for so long. `hold`: for this node's sake, it ends no pause. */
  async #turnAway(ms: number, how: "pause" | "hold" = "pause"): Promise<never> {
    const { clock, storage } = this.#deps;
    await storage.queue[how](this.#lease.subscriptionId, Math.ceil(ms));
    await storage.queue.release(this.#lease);
    throw new NotDelivered(clock.now() + ms, false);
  }

  /** Commits the result of an attempt. @throws NotDelivered after the commit, when another attempt follows */
  async #record(sub: Subscription, tried: Delivery, made: Attempt, outcome: Outcome): Promise<void> {
    const { report, holdMs, gone, clock, log } = this.#deps;
    const { event } = this.#loaded as CachedEvent;
    let now: Delivery;
    switch (outcome.kind) {
      case "delivered": {
        this.#delivery = now = { ...tried, status: "delivered", nextAttemptAt: undefined };
        // Only a success gives its slot back early. Any other outcome may ask for a pause, which must be known first.
        const slot = this.#slot;
        const early = slot?.giveEarly() === true;
        try {
          await this.#settleEnd([putDelivery(now), dropDue(this.#line)], now);
        } finally {
          if (early) slot?.stored();
        }
        break;
      }
      case "gone":
      case "exhausted": {
        const reason = outcome.kind === "gone" ? "endpoint_gone" : "exhausted";
        this.#delivery = now = { ...tried, status: "failed", reason, nextAttemptAt: undefined };
        const loaded = this.#loaded as CachedEvent;
        const ending = { lease: this.#lease, line: this.#line };
        await endFailed(ending, { sub, loaded, failed: now }, this.#signal, this.#deps);
        if (outcome.kind === "gone")
          await persist(() => gone(now.keyId, sub.id, event.type), this.#signal, { clock, log });
        break;
      }
      case "retry": {
        // It may have been disabled while the attempt was under way: then nothing waits for another one.
        const current = async () => this.#deps.subscriptionCache.get(sub.keyId, sub.id);
        const over = asEnded(tried, await persist(current, this.#signal, { clock, log }));
        if (over !== undefined) {
          await this.#settleEnded((this.#delivery = now = over));
          break;
        }
        this.#delivery = now = { ...tried, nextAttemptAt: outcome.at };
        const next = dueOf(now, outcome.at);
        const held = outcome.at - now.updatedAt <= holdMs && this.#hold();
        const then = held ? { keep: next } : { next };
        await settle(this.#lease, movedChanges(this.#line, next, now), then, this.#signal, this.#deps);
        this.#line = next;
        report(sub, now, made, outcome, event);
        await this.#pause(outcome.pauseMs);
        throw new NotDelivered(outcome.at, held);
      }
    }
    report(sub, now, made, outcome, event);
    if (outcome.kind === "exhausted") await this.#pause(outcome.pauseMs);
  }

  /** Stores that its subscription has ended it, and counts it. */
  async #settleEnded(over: Delivery): Promise<void> {
    await this.#settleEnd(endedChanges(this.#line, over), over);
    countEnd(over, this.#deps.metrics, this.#deps.failed);
  }

  #settleEnd(changes: readonly Change[], delivery: Delivery): Promise<void> {
    return settleEnd({ lease: this.#lease, line: this.#line, delivery }, changes, this.#signal, this.#deps);
  }

  /**
   * Pauses the subscription for the ms that its receiver has asked for. The result and its next time are stored already, so
   * a failure here must not undo them. This node still observes the pause, and sets it again when it turns the next one away.
   */
  async #pause(asked: number | undefined): Promise<void> {
    if (asked === undefined) return;
    const { retryAfter, storage, clock, log } = this.#deps;
    const { subscriptionId } = this.#lease;
    // The receiver asked when it answered, and storing the result may have taken long.
    const ms = Math.max(1, Math.ceil(asked - (clock.monotonic() - this.#answeredAt)));
    retryAfter?.(subscriptionId, ms);
    await storage.queue
      .pause(subscriptionId, ms)
      .catch((error: unknown) => log.warn("a pause was not set", { subscriptionId, error: String(error) }));
  }

  #giveSlot(): void {
    this.#slot?.give();
    this.#slot = undefined;
  }

  /** Waits under the lease, without a slot and without the body. */
  async #wait(until: number): Promise<void> {
    const { clock, slots, holdMs, storage, log } = this.#deps;
    const { waitMs = holdMs } = this.#line;
    // The clock may be set at any time; the wait never exceeds what is left of the one asked for.
    const began = clock.monotonic();
    const left = (): number => Math.min(until - clock.now(), waitMs - (clock.monotonic() - began));
    this.#loaded = undefined;
    this.#giveSlot();
    const ends = this.#draining === undefined ? this.#signal : AbortSignal.any([this.#signal, this.#draining]);
    try {
      await this.#sleep(clock.now() + Math.min(left(), holdMs), ends);
      this.#slot = await slots.wait(this.#lease, ends);
      if (this.#slot === undefined) throw new Error("no slot for a while");
    } catch {
      const { subscriptionId } = this.#lease;
      // Not repeated with another time: the lease lapses, and storage has the line with its own.
      await storage.queue
        .release(this.#lease, clock.now() + left())
        .catch((error: unknown) => log.warn("a lease was not given back", { subscriptionId, error: String(error) }));
      throw new NotDelivered(until, false);
    } finally {
      this.#unhold();
    }
  }

  /** Sleeps as long as the subscription stays as it is: what waits in the queue can be ended at once. @throws when it may change */
  async #sleep(until: number, signal: AbortSignal): Promise<void> {
    const { clock, storage } = this.#deps;
    const changed = new AbortController();
    const own = SUBSCRIPTION.key({ keyId: this.#lease.keyId, id: this.#lease.subscriptionId });
    const unwatch = storage.watch((keys) => {
      if (keys.includes(own) || keys.includes(SUBSCRIPTION.start)) changed.abort();
    });
    await clock.sleep(until, AbortSignal.any([signal, changed.signal])).finally(unwatch);
  }

  #hold(): boolean {
    if (this.#deps.heldWaits >= this.#deps.mostHeld) return false;
    this.#deps.heldWaits++;
    return (this.#holding = true);
  }

  #unhold(): void {
    if (this.#holding) this.#deps.heldWaits--;
    this.#holding = false;
  }
}

/** Tells p-retry's loop that another attempt follows: not delivered, with the time at which the delivery is due again. */
class NotDelivered extends Error {
  readonly at: number;
  readonly held: boolean;
  constructor(at: number, held: boolean) {
    super("not delivered");
    this.at = at;
    this.held = held;
  }
}

/**
 * True for errors that need no report: the wait is not held, so the delivery went back to the queue; or the lease was
 * lost or its line changed, so another holder continues, or nobody may.
 */
const isExpectedEnd = (error: unknown): boolean =>
  error instanceof NotDelivered || error instanceof LeaseLostError || error instanceof ConflictError;
