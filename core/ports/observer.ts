/**
 * The observer port: it watches events and attempts while the relay works. The relay's own observers (circuit breaker,
 * live feed, stats) and those of plug-ins are in one list and are called in its order.
 */
import type { Attempt, Outcome } from "../model/attempt.ts";
import type { Delivery } from "../model/delivery.ts";
import type { RelayEvent } from "../model/event.ts";
import type { Subscription } from "../model/subscription.ts";
import type { LimitCode } from "../model/windows.ts";
import type { Accept } from "./source.ts";
import type { Reply } from "./transport.ts";

/** Called for each attempt after its outcome is stored. */
export type AttemptObserver = (
  sub: Subscription,
  delivery: Delivery,
  attempt: Attempt,
  outcome: Outcome,
  /** The type of its event. */
  type?: string,
) => void;

/** Makes one attempt of a delivery. @throws the signal's reason, or a fault of the relay: then nothing is counted */
export type SendAttempt = (
  sub: Subscription,
  loaded: { readonly event: RelayEvent; readonly body: Uint8Array },
  turn: { readonly cycle: number; readonly number: number },
  signal: AbortSignal,
) => Promise<{ readonly attempt: Attempt; readonly reply: Reply }>;

/**
 * Every member may be left out. `accepted`, `attempted` and `refused` are called on the path of each event: they return
 * at once and wait for nothing. One that throws is logged, and the relay continues. They change nothing of what they are given.
 */
export interface Observer {
  /** An event and its deliveries are stored. Called once for each event, on the node that accepted it. */
  accepted?(event: RelayEvent): void;
  /**
   * An attempt was made and its outcome is stored. Called once for each attempt, on the node that made it.
   * @param type of the event
   */
  attempted?(sub: Subscription, delivery: Delivery, attempt: Attempt, outcome: Outcome, type?: string): void;
  /**
   * A request was answered 429.
   * @param keyId the API key of its path, where the caller owns it
   */
  refused?(code: LimitCode | "PROVIDER_BACKPRESSURE", keyId: string | undefined): void;
  /**
   * Wraps how events are accepted from the sources; called once, at the start. The wrapper calls `next` once, with the request, in which it may replace `traceparent`. The publisher gets what the wrapper returns: the answer of `next`.
   */
  wrapAccept?(next: Accept): Accept;
  /**
   * Wraps how an attempt is sent; called once, at the start. The wrapper calls `next` once, and returns its answer; the
   * `traceparent` of the event that it passes on is what the receiver gets.
   */
  wrapSend?(next: SendAttempt): SendAttempt;
  /** Closes everything, within a second. Called once, when no event and no attempt is under way. */
  dispose?(): Promise<void>;
}
