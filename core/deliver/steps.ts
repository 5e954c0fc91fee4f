/** The steps of one attempt, in their order. Each says what follows it. */
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { Outcome } from "../model/attempt.ts";
import { attemptId, deliveryId, type Delivery, type EndReason } from "../model/delivery.ts";
import { DamagedRecordError, LeaseLostError } from "../model/errors.ts";
import { ordinalTime } from "../model/ids.ts";
import { DUE } from "../model/schema.ts";
import type { DisabledReason, Subscription } from "../model/subscription.ts";
import { dropDue, dueOf, endedChanges, freshDelivery, movedChanges, putDelivery } from "../records/delivery-records.ts";
import { asEnded, countEnd, FRESH_MS } from "../records/ended-by.ts";
import { isNamed, loadRecord } from "../records/load-record.ts";
import { persist } from "../records/persist.ts";
import { isSameVersion } from "../records/subscription-record.ts";
import type { CachedEvent } from "./event-cache.ts";
import { judge as judgeReply } from "./outcome.ts";
import { afterFault, nameOf } from "./own-faults.ts";
import type { Next, Run, Step } from "./run.ts";
import { sendMade } from "./send.ts";
import { settle, settleEnd, settleFailed } from "./settle.ts";

export const STEPS: readonly Step[] = [load, ended, gates, body, lease, fresh, send, judge, record, report];

/** Loads the event and the delivery's record, and proves that it is one of the event's. */
function load(run: Run): MaybePromise<Next> {
  return run.loaded !== undefined && run.delivery !== undefined ? "go" : read(run);
}

async function read(run: Run): Promise<Next> {
  const { keyId, subscriptionId, ordinal, cycle } = run.lease;
  const { storage, eventCache, recipients } = run.deps;
  if (run.loaded === undefined) run.seen = eventCache.forgotten;
  run.delivery ??= await loadRecord(run.line, storage);
  const loaded = run.loaded ?? (await eventCache.load(keyId, ordinal));
  // A record that agrees with the line proves it.
  const proven = cycle > 0 || run.delivery !== undefined;
  if (!proven && !(await isNamed(recipients, loaded.event, subscriptionId)))
    throw new DamagedRecordError("due", "misplaced", DUE.key(run.line));
  run.loaded = loaded;
  run.delivery ??= freshDelivery(run.line, loaded.event.id);
  return "go";
}

/** Ends the delivery where its subscription, as it is now, has ended it. */
function ended(run: Run): MaybePromise<Next> {
  const sub = run.deps.subscriptionCache.get(run.lease.keyId, run.lease.subscriptionId);
  run.waited = false;
  return sub instanceof Promise ? sub.then((found) => begin(run, found)) : begin(run, sub);
}

function begin(run: Run, sub: Subscription | undefined): MaybePromise<Next> {
  const delivery = run.delivery as Delivery;
  const over = asEnded(delivery, sub);
  if (over !== undefined) return end(run, over);
  run.sub = sub as Subscription;
  run.turn = { cycle: run.lease.cycle, number: delivery.attempts.length + 1 };
  return "go";
}

/** Stores that its subscription has ended it, and counts it. */
async function end(run: Run, over: Delivery): Promise<Next> {
  await settleEnd(run, endedChanges(run.line, over), over);
  countEnd(over, run.deps.metrics, run.deps.failed);
  return "over";
}

/** Turns it away while its receiver must be left alone, or its rate is used up. */
function gates(run: Run): MaybePromise<Next> {
  const { sub, lease, deps } = run;
  const ms = deps.gates.paused.has(sub.id) ? deps.gates.admit(sub.id, lease.ordinal) : undefined;
  if (ms !== undefined) return { ms, how: "pause" };
  return sub.rateLimit === undefined ? "go" : rate(run);
}

async function rate({ sub, deps }: Run): Promise<Next> {
  const ms = await deps.rateLimit(sub);
  return ms === undefined ? "go" : { ms, how: "hold" };
}

/** Makes what is sent: the event, or what the subscription's transform makes of it. */
function body(run: Run): MaybePromise<Next> {
  run.made = run.loaded as CachedEvent;
  return run.sub.transform === undefined ? "go" : transform(run);
}

async function transform(run: Run): Promise<Next> {
  const { deps, sub, lease, turn, signal } = run;
  let made: Awaited<ReturnType<typeof deps.transform>>;
  try {
    made = await deps.transform(sub, run.loaded as CachedEvent, turn, signal);
  } catch (error) {
    made = afterFault(error, run);
  }
  // The receiver may have asked for a pause while the transform waited and ran. Of two waits it is the one that counts.
  const ms = deps.gates.admit(sub.id, lease.ordinal);
  if (ms !== undefined) return { ms, how: "pause" };
  if (typeof made === "number") return { ms: made, how: "hold" };
  run.made = made;
  return "go";
}

/** Asks for the lease as all nodes see it. */
function lease(run: Run): MaybePromise<Next> {
  run.askedAt = run.deps.clock.monotonic();
  const held = run.deps.storage.queue.extend(run.lease);
  if (held === true) return "go";
  return unlessLost(held);
}

async function unlessLost(held: MaybePromise<boolean>): Promise<Next> {
  if (!(await held)) throw new LeaseLostError();
  return "go";
}

/** Looks at event and subscription once more before the first byte, where anything was waited for since they were read. */
function fresh(run: Run): MaybePromise<Next> {
  return run.waited || run.deps.eventCache.forgotten !== run.seen ? look(run) : "go";
}

async function look(run: Run): Promise<Next> {
  const { keyId, subscriptionId, ordinal } = run.lease;
  const { clock, eventCache, subscriptionCache } = run.deps;
  let now: Subscription | undefined;
  do {
    // Something was erased: the record of a wide event goes before its lines. The subscription may change during the read.
    if (eventCache.forgotten !== run.seen) run.seen = await eventCache.look(keyId, ordinal);
    now = await subscriptionCache.get(keyId, subscriptionId);
  } while (eventCache.forgotten !== run.seen);
  return isSameVersion(now, run.sub) && clock.monotonic() - run.askedAt <= FRESH_MS ? "go" : "again";
}

/** Makes the request. A connection that is away uses up no attempt. */
async function send(run: Run): Promise<Next> {
  const { deps, sub, slot, made, turn, signal } = run;
  slot?.toward(sub.url);
  try {
    const plain = sub.transform === undefined && !("reply" in made);
    run.sent = await (plain ? deps.send(sub, made, turn, signal) : sendMade(deps.send, sub, made, turn, signal));
  } catch (error) {
    run.sent = afterFault(error, run);
  }
  const { reply } = run.sent;
  slot?.took(reply.kind === "response" && reply.status < 500 && reply.status !== 429);
  run.answeredAt = deps.clock.monotonic();
  if (reply.kind === "unavailable") return { ms: deps.away.note(sub, reply.detail), how: "pause" };
  if (deps.faults.size > 0) deps.faults.delete(nameOf(run.lease));
  return "go";
}

/** Judges the reply. Breaker and pauses know of it before it is stored, so that what is sent meanwhile meets them. */
function judge(run: Run): Next {
  const { deps, sub, turn } = run;
  const { reply, attempt } = run.sent;
  const before = run.delivery as Delivery;
  const now = deps.clock.now();
  const retry = sub.retry ?? deps.retry;
  const { receiverControl } = deps;
  const outcome = judgeReply(reply, { attempt: turn.number, retry, now, random: deps.random(), receiverControl });
  run.outcome = outcome;
  run.tried = { ...before, attempts: [...before.attempts, attempt], updatedAt: now };
  if (outcome.kind === "delivered" && deps.circuitBreaker.failing.size === 0) return "go";
  deps.circuitBreaker.attempted(sub, run.tried, attempt, outcome, (run.loaded as CachedEvent).event.type);
  const ms = pauseOf(run);
  if (ms !== undefined) deps.gates.pause(sub.id, "retry_after", ms);
  return "go";
}

/** Returns what is left of the pause that the receiver asked for when it answered, ms. */
function pauseOf({ outcome, deps, answeredAt }: Run): number | undefined {
  if (!("pauseMs" in outcome) || outcome.pauseMs === undefined) return undefined;
  return Math.max(1, Math.ceil(outcome.pauseMs - (deps.clock.monotonic() - answeredAt)));
}

/** Commits the result, with the next time where there is one. */
function record(run: Run): MaybePromise<Next> {
  return RECORD[run.outcome.kind](run, run.outcome as never);
}

type Recorders = { readonly [K in Outcome["kind"]]: (run: Run, outcome: Outcome & { kind: K }) => Promise<Next> };
const RECORD: Recorders = {
  async delivered(run, { disables }) {
    const now: Delivery = (run.delivery = { ...run.tried, status: "delivered", nextAttemptAt: undefined });
    // Only a success gives its slot back early. Any other outcome may ask for a pause, which must be known first.
    const { slot } = run;
    const early = slot?.giveEarly() === true;
    try {
      const changes = [putDelivery(now), dropDue(run.line)];
      await (run.line.order === undefined ? settle(run, changes) : settleEnd(run, changes, now));
    } finally {
      if (early) slot?.stored();
    }
    if (disables === true) await disable(run, "receiver_disabled");
    return "go";
  },
  async gone(run) {
    await fail(run, "endpoint_gone");
    return disable(run, "endpoint_gone");
  },
  async disabled(run) {
    await fail(run, "receiver_disabled");
    return disable(run, "receiver_disabled");
  },
  async aborted(run) {
    await fail(run, "receiver_aborted");
    return "go";
  },
  async exhausted(run) {
    await fail(run, "exhausted");
    return "go";
  },
  async retry(run, { at }) {
    const { deps, sub, signal, tried } = run;
    // It may have been disabled while the attempt was under way: then nothing waits for another one.
    const current = async () => deps.subscriptionCache.get(sub.keyId, sub.id);
    const over = asEnded(tried, await persist(current, signal, deps));
    if (over !== undefined) {
      await end(run, (run.delivery = over));
      return "go";
    }
    const now: Delivery = (run.delivery = { ...tried, nextAttemptAt: at });
    const next = dueOf(now, at);
    const held = at - now.updatedAt <= deps.holdMs && deps.heldWaits.size < deps.mostHeld;
    if (held) deps.heldWaits.add(run);
    await settle(run, movedChanges(run.line, next, now), held ? { keep: next } : { next });
    run.line = next;
    run.after = { held };
    return "go";
  },
};

/** Comes after the result is stored: a process that dies between them is told the same by the next answer. */
async function disable({ deps, sub, signal, loaded }: Run, reason: DisabledReason): Promise<Next> {
  await persist(() => deps.disable(sub.keyId, sub.id, reason, (loaded as CachedEvent).event.type), signal, deps);
  return "go";
}

function fail(run: Run, reason: EndReason): Promise<void> {
  const failed: Delivery = (run.delivery = { ...run.tried, status: "failed", reason, nextAttemptAt: undefined });
  return settleFailed(run, failed, run.sub, (run.loaded as CachedEvent).event);
}

/** Reports the attempt once its result is stored: metrics, its one log line, the observers. */
function report(run: Run): MaybePromise<Next> {
  const { sub, outcome, deps } = run;
  const { attempt } = run.sent;
  const { number, statusCode, error, detail, startedAt, durationMs } = attempt;
  const { metrics } = deps;
  const delivery = run.delivery as Delivery;
  const { eventId, keyId, subscriptionId, ordinal, cycle } = delivery;
  const { type, traceparent } = (run.loaded as CachedEvent).event;
  const result = statusCode === undefined ? (error as string) : `${Math.floor(statusCode / 100)}xx`;
  metrics.count("attempts", { result });
  metrics.observe("attempt_seconds", durationMs / 1000);
  if (number === 1 && cycle === 0)
    metrics.observe("accept_to_first_attempt_seconds", (startedAt - ordinalTime(ordinal)) / 1000);
  if (outcome.kind !== "retry") metrics.count("deliveries", { outcome: outcome.kind });
  // Every field about it, but no body, secret or URL.
  deps.log.info("attempt", {
    attemptId: attemptId(ordinal, subscriptionId, cycle, number),
    deliveryId: deliveryId(ordinal, subscriptionId),
    eventId,
    traceId: traceparent?.slice(3, 35),
    keyId,
    subscriptionId,
    cycle,
    attempt: number,
    statusCode,
    error,
    detail,
    durationMs,
    outcome: outcome.kind,
    nextAttemptAt: outcome.kind === "retry" ? outcome.at : undefined,
  });
  deps.attempted(sub, delivery, attempt, outcome, type);
  return outcome.kind === "delivered" ? "over" : pause(run);
}

/**
 * Sets the pause that the receiver has asked for in the queue and on the other nodes. The result and its next time are
 * stored already, so a failure here must not undo them; this node observes the pause all the same.
 */
async function pause(run: Run): Promise<Next> {
  const { sub, after, deps } = run;
  const ms = pauseOf(run);
  if (ms === undefined) return after;
  deps.retryAfter?.(sub.id, ms);
  await deps.storage.queue
    .pause(sub.id, ms)
    .catch((error: unknown) => deps.log.warn("a pause was not set", { subscriptionId: sub.id, error: String(error) }));
  return after;
}
