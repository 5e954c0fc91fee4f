/** What may be heard of the path while it works. */
import type { Attempt, Outcome } from "../model/attempt.ts";
import type { Delivery } from "../model/delivery.ts";
import type { Subscription } from "../model/subscription.ts";

/** Hears of each attempt once its result is stored, on the node that made it. Must not throw, and must not wait. */
export type AttemptObserver = (sub: Subscription, delivery: Delivery, attempt: Attempt, outcome: Outcome) => void;
