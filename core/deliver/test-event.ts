/** Sends a test event: one attempt, now, in every state of the subscription. It is stored nowhere. */
import type { Attempt } from "../model/attempt.ts";
import { deliveryBody, type RelayEvent } from "../model/event.ts";
import { ordinalTime, ordinals } from "../model/ids.ts";
import { noSuch } from "../model/problem.ts";
import { isLive, type Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import type { CachedEvent } from "./event-cache.ts";
import { sendMade, transformFailed, type Send, type SentAttempt, type Transforming } from "./send.ts";

interface TestEventSent {
  readonly ordinal: string;
  readonly attempt: Attempt;
  /** The connection that the subscription's URL names is away. */
  readonly away: boolean;
}

/** The body that a transform makes of an event, or why it makes none. */
type Preview = { readonly body: string } | { readonly error: string };

/** Is sent in place of `relay:ping`. */
interface Example {
  readonly type: string;
  readonly data: unknown;
}

/** How the id of a test event begins: signed with the body, it tells a receiver an example from an event that happened. */
const TEST_ID = "evt_test_";
const TURN = { cycle: 0, number: 1 } as const;
/** How often, and how long at most each time, it waits for a transform that cannot be run now. */
const MOST_TRIES = 5;
const LONGEST_WAIT_MS = 1_000;

export function createTestEvent(deps: {
  readonly send: Send;
  readonly subscriptionCache: Pick<SubscriptionCache, "get">;
  readonly transform: Transforming;
  readonly clock: Clock;
}) {
  const mint = ordinals(() => deps.clock.now());
  const underWay = new Map<Promise<unknown>, { readonly id: string; readonly end: AbortController }>();

  function eventFor({ id: subscriptionId, keyId }: Subscription, example?: Example): RelayEvent {
    const ordinal = mint();
    const at = ordinalTime(ordinal);
    const id = `${TEST_ID}${ordinal}`;
    const { type, data } = example ?? { type: "relay:ping", data: { subscriptionId } };
    const body = deliveryBody(id, type, keyId, at, JSON.stringify(data));
    return { id, type, keyId, ordinal, createdAt: at, acceptedAt: at, subscriptionIds: [subscriptionId], body };
  }

  /** Returns the body that is sent. Where too many wait for a transform, it asks again for a while. */
  async function make(sub: Subscription, loaded: CachedEvent, signal: AbortSignal): Promise<CachedEvent | SentAttempt> {
    if (sub.transform === undefined) return loaded;
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const made = await deps.transform(sub, loaded, TURN, signal);
      if (typeof made !== "number") return made;
      await deps.clock.sleep(deps.clock.now() + Math.min(made, LONGEST_WAIT_MS), signal);
    }
    const times = { startedAt: deps.clock.now(), durationMs: 0 };
    return transformFailed(
      TURN,
      `${sub.transform} cannot be run now: too many wait, or the config cannot be loaded`,
      times,
    );
  }

  async function transmit(sub: Subscription, loaded: CachedEvent, signal: AbortSignal): Promise<SentAttempt> {
    return sendMade(deps.send, sub, await make(sub, loaded, signal), TURN, signal);
  }

  return {
    /**
     * Affects neither health nor circuit breaker, and is never retried.
     * @throws Problem NOT_FOUND when the subscription is deleted, also meanwhile; the signal's reason; a fault of ours
     */
    async send({ keyId, id }: Subscription, signal: AbortSignal, example?: Example): Promise<TestEventSent> {
      // Read again: it may have been deleted since the caller looked.
      const subscription = await deps.subscriptionCache.get(keyId, id);
      if (!isLive(subscription)) throw noSuch("subscription");
      const event = eventFor(subscription, example);
      const loaded = { event, body: Buffer.from(event.body, "utf8") };
      const end = new AbortController();
      const sent = transmit(subscription, loaded, AbortSignal.any([signal, end.signal]));
      underWay.set(sent, { id, end });
      try {
        const { attempt, reply } = await sent;
        return { ordinal: event.ordinal, attempt, away: reply.kind === "unavailable" };
      } finally {
        underWay.delete(sent);
      }
    },
    /**
     * Runs the subscription's transform on a stored event, or on one that is not stored, within the limits of deliveries.
     * Sends and stores nothing; without a transform it returns the event's own body.
     * @throws the signal's reason
     */
    async preview(subscription: Subscription, of: RelayEvent | Example, signal: AbortSignal): Promise<Preview> {
      const event = "body" in of ? of : eventFor(subscription, of);
      const made = await make(subscription, { event, body: Buffer.from(event.body, "utf8") }, signal);
      if ("body" in made) return { body: Buffer.from(made.body).toString("utf8") };
      return { error: made.attempt.detail ?? "the transform failed" };
    },
    /** Aborts the test events under way of a deleted subscription; resolves when they have ended. */
    async abort(subscriptionId: string): Promise<void> {
      const own = [...underWay].filter(([, { id }]) => id === subscriptionId);
      for (const [, { end }] of own) end.abort(noSuch("subscription"));
      await Promise.allSettled(own.map(([sent]) => sent));
    },
  };
}
