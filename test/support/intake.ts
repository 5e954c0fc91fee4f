/** An intake over a shelf, with subscriptions to set and everything it told to look at. */
import type { FanoutBounds } from "../../core/publish/write-event.ts";
import { createOperational } from "../../core/notify/operational.ts";
import { createPublisher, type Publisher } from "../../core/publish/accept.ts";
import type { RelayEvent } from "../../core/model/event.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import type { AcceptRequest } from "../../core/ports/source.ts";
import { testClock, type TestClock } from "./clock.ts";
import { quietLog, quietMetrics } from "./quiet.ts";
import { shelf, type Shelf } from "./shelf.ts";

export const subscription = (id: string, over: Partial<Subscription> = {}): Subscription => ({
  id: `sub_${id}`,
  keyId: "key_1",
  url: "https://hooks.example.com/",
  events: ["deposit:paid"],
  status: "active",
  createdAt: 0,
  updatedAt: 0,
  generation: 3,
  secrets: [],
  ...over,
});

type PublisherDeps = Parameters<typeof createPublisher>[0];

export interface Desk {
  readonly intake: Publisher;
  readonly operational: ReturnType<typeof createOperational>;
  readonly shelf: Shelf;
  readonly clock: TestClock;
  readonly log: ReturnType<typeof quietLog>;
  readonly metrics: ReturnType<typeof quietMetrics>;
  readonly told: RelayEvent[];
  subscriptions: readonly Subscription[];
  /** Another process on the same storage. */
  another(): Publisher;
}

export function desk({
  events,
  ...options
}: {
  readonly events?: readonly string[];
  readonly maxPending?: number;
  readonly maxPendingPerKey?: number;
  readonly fanout?: FanoutBounds;
  readonly balance?: PublisherDeps["balance"];
} = {}): Desk {
  const store = shelf();
  const clock = testClock();
  const [log, metrics, told]: [Desk["log"], Desk["metrics"], RelayEvent[]] = [quietLog(), quietMetrics(), []];
  const made: Desk = {
    intake: undefined as never,
    operational: undefined as never,
    shelf: store,
    clock,
    log,
    metrics,
    told,
    subscriptions: [],
    another,
  };
  // The same list until one of them changes.
  let lists = new Map<string, readonly Subscription[]>();
  let from = made.subscriptions;
  function of(keyId: string): readonly Subscription[] {
    if (from !== made.subscriptions) lists = new Map();
    from = made.subscriptions;
    const list = lists.get(keyId) ?? from.filter((sub) => sub.keyId === keyId);
    lists.set(keyId, list);
    return list;
  }
  function another(): Publisher {
    return createPublisher({
      storage: store,
      handOver: { offer: (_, dues) => store.queue.add(dues) },
      subscriptionCache: { of },
      clock,
      maxPending: 0,
      catalogue: { names: events && new Set(events) },
      ...options,
      log,
      metrics,
      accepted: (event) => void told.push(event),
    });
  }
  const intake = another();
  return Object.assign(made, { intake, operational: createOperational({ storage: store, publisher: intake }) });
}

/** A request of these events: texts as they are, anything else as JSON. */
export const publish = (events: readonly unknown[], over: Partial<AcceptRequest> = {}): AcceptRequest => ({
  publications: events.map((event, i) => ({
    text: typeof event === "string" ? event : JSON.stringify(event),
    path: events.length > 1 ? `[${i}]` : "",
  })),
  source: "test",
  ...over,
});

export const paid = (over: Readonly<Record<string, unknown>> = {}): Record<string, unknown> => ({
  type: "deposit:paid",
  keyId: "key_1",
  data: { amount: 1 },
  ...over,
});
