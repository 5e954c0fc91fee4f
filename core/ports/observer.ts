/** The observer port reports what happens on the delivery path. */
import type { Attempt, Outcome } from "../model/attempt.ts";
import type { Delivery } from "../model/delivery.ts";
import type { Subscription } from "../model/subscription.ts";

/** Called for each attempt after its result is stored, on the node that made it. Must not throw or wait. */
export type AttemptObserver = (sub: Subscription, delivery: Delivery, attempt: Attempt, outcome: Outcome) => void;
