/** The parts of the relay that the operations of the API stand on. */
import type { AttentionReader, Parts } from "../../attention/attention.ts";
import type { AttemptSearch } from "../../history/attempt-search.ts";
import type { AttemptHistory } from "../../history/attempts.ts";
import type { History } from "../../history/history.ts";
import type { Attempt } from "../../model/attempt.ts";
import type { Actor } from "../../model/audit.ts";
import type { RelayEvent } from "../../model/event.ts";
import type { EventTypes } from "../../model/event-type.ts";
import type { Subscription } from "../../model/subscription.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Keys, Log } from "../../ports/plugin.ts";
import type { Accepted, AcceptRequest } from "../../ports/source.ts";
import type { Storage } from "../../ports/storage.ts";
import type { AcceptedWith } from "../../publish/store.ts";
import type { PendingDeliveries } from "../../replay/pending.ts";
import type { Replay } from "../../replay/replay.ts";
import type { EventErasure } from "../../retention/erase-event.ts";
import type { KeyErasure } from "../../retention/erase-key.ts";
import type { createStatsQuery } from "../../stats/query.ts";
import type { SubscriptionCache, Subscriptions } from "../../subscriptions/subscriptions.ts";
import type { Call } from "../http/call.ts";
import type { PortalLinks } from "../portal/links.ts";
import type { Cursors } from "./lists.ts";

export interface OperationsDeps {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly keys: Pick<Keys, "seal" | "open">;
  readonly auth: Auth;
  readonly log: Pick<Log, "error">;
  readonly subscriptionCache: SubscriptionCache;
  readonly subscriptions: Subscriptions;
  readonly history: History;
  readonly attempts: AttemptHistory;
  readonly searchAttempts: AttemptSearch;
  readonly attention: AttentionReader;
  readonly replay: Replay;
  readonly pending: PendingDeliveries;
  /** Accepts an event on behalf of a manager, and stores `also` in the same commit. */
  readonly publish: (request: AcceptRequest, also: AcceptedWith) => Promise<readonly Accepted[]>;
  readonly eraseEvent: EventErasure["erase"];
  readonly eraseKey: KeyErasure["erase"];
  /** URL schemes that a transport serves. */
  readonly schemes: readonly string[];
  /** The catalogue of event names as it is now. */
  readonly events: () => readonly string[] | undefined;
  /** Returns what the config says of the event types now, by name. */
  readonly types: () => EventTypes | undefined;
  /** Names of the transforms that the config has now. */
  readonly transforms: () => readonly string[];
  /** The time that is left of a receiver's `Retry-After`, ms. */
  readonly pausedMs: (subscriptionId: string) => number;
  /** Lets the next attempt to each of them through its circuit breaker: a replay by hand is the probe. */
  readonly probe: (subscriptionIds: readonly string[]) => Promise<void>;
  /** Sends `relay:ping`, or the example, once. `away`: the connection that the URL names is not there. */
  readonly ping: (
    subscription: Subscription,
    signal: AbortSignal,
    example?: { readonly type: string; readonly data: unknown },
  ) => Promise<{ readonly ordinal: string; readonly attempt: Attempt; readonly away: boolean }>;
  /** Runs the transform of a subscription where those of deliveries run, within the same limits. */
  readonly preview: (
    subscription: Subscription,
    of: RelayEvent | { readonly type: string; readonly data: unknown },
    signal: AbortSignal,
  ) => Promise<{ readonly body: string } | { readonly error: string }>;
  readonly feed: Feed;
  readonly figures: {
    readonly stats: StatsQuery["ofKey"];
    readonly sums: StatsQuery["sumsOf"];
    readonly relay: StatsQuery["ofRelay"];
    /** Returns nodes, storage, backlog. */
    status(): Promise<Readonly<Record<string, unknown>>>;
    /** Returns the state of each part of the relay. */
    parts(): Promise<Parts>;
  };
  /** Begins to seal everything again, or joins that; resolves when it is over, or after a few seconds with how far it is. */
  readonly rekey: (actor: Actor) => Promise<{
    readonly state: "running" | "done" | "blocked";
    readonly sealed: number;
    readonly unreadable: readonly string[];
  }>;
  /** Without it there are no links to the portal. */
  readonly portal?: PortalOffer | undefined;
}

/** One message. `data` becomes one line of JSON. */
export interface FeedLine {
  readonly event: "event" | "attempt" | "subscription" | "again";
  readonly data: Readonly<Record<string, unknown>>;
}

export interface Feed {
  /**
   * Reports what happens on a key from now on. Returns a function that ends it.
   * @param since epoch ms: begins with `again` when something may have happened from then to now
   */
  listen(keyId: string, tell: (message: FeedLine) => void, since?: number): () => void;
}

export interface PortalOffer {
  readonly links: Pick<PortalLinks, "mint" | "revoke">;
  /** Returns the address of the portal's page, for a link that this request asks for. */
  readonly pageUrl: (call: Call) => string;
}

type StatsQuery = ReturnType<typeof createStatsQuery>;

export interface ResourceDeps extends OperationsDeps {
  /** Cursors that hold a place among the events of a key. */
  readonly cursors: Cursors;
  /** Cursors that hold a count. */
  readonly places: Cursors;
  /** Cursors that hold a place among the attempts of a key. */
  readonly attemptPlaces: Cursors;
}
