// Generated from /openapi.json by test/client/generated.test.ts (RELAY_RECORD=write); not to be changed by hand.
/** The method and the path of each operation, and the type of what it streams. */
export const OPERATIONS = {
  acknowledgeAttention: "POST /api-keys/{keyId}/attention/acknowledge",
  acknowledgeRelayAttention: "POST /relay/attention/acknowledge",
  attemptDelivery: "POST /api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/attempt",
  beginTotp: "POST /auth/totp",
  beginTotpOfUser: "POST /auth/users/{username}/totp",
  cancelDelivery: "POST /api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/cancel",
  changeDeliveries: "POST /api-keys/{keyId}/deliveries",
  confirmTotp: "PUT /auth/totp",
  confirmTotpOfUser: "PUT /auth/users/{username}/totp",
  createPortalLink: "POST /api-keys/{keyId}/portal-links",
  createSubscription: "POST /api-keys/{keyId}/webhooks",
  createUser: "POST /auth/users",
  deleteApiKey: "DELETE /api-keys/{keyId}",
  deleteEvent: "DELETE /api-keys/{keyId}/events/{eventId}",
  deleteSubscription: "DELETE /api-keys/{keyId}/webhooks/{subscriptionId}",
  deleteUser: "DELETE /auth/users/{username}",
  getEvent: "GET /api-keys/{keyId}/events/{eventId}",
  getEventType: "GET /event-types/{eventType}",
  getOrder: "GET /api-keys/{keyId}/webhooks/{subscriptionId}/order",
  getRelayStatus: "GET /relay/status",
  getStats: "GET /api-keys/{keyId}/stats",
  getSubscription: "GET /api-keys/{keyId}/webhooks/{subscriptionId}",
  listApiKeys: "GET /api-keys",
  listAttempts: "GET /api-keys/{keyId}/attempts",
  listAttention: "GET /api-keys/{keyId}/attention",
  listAuditLines: "GET /api-keys/{keyId}/audit",
  listDeliveries: "GET /api-keys/{keyId}/webhooks/{subscriptionId}/deliveries",
  listDeliveryAttempts: "GET /api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/attempts",
  listEventTypes: "GET /event-types",
  listEvents: "GET /api-keys/{keyId}/events",
  listRelayAttention: "GET /relay/attention",
  listSubscriptions: "GET /api-keys/{keyId}/webhooks",
  listTransforms: "GET /transforms",
  listUsers: "GET /auth/users",
  logout: "POST /auth/logout",
  publishEventByHand: "POST /api-keys/{keyId}/events",
  rekey: "POST /relay/rekey",
  replayApiKey: "POST /api-keys/{keyId}/replay",
  replayEvent: "POST /api-keys/{keyId}/events/{eventId}/replay",
  replaySubscription: "POST /api-keys/{keyId}/webhooks/{subscriptionId}/replay",
  resetUser: "POST /auth/users/{username}/reset",
  revokePortalLinks: "DELETE /api-keys/{keyId}/portal-links",
  rotateSecret: "POST /api-keys/{keyId}/webhooks/{subscriptionId}/rotate-secret",
  skipHeldDeliveries: "POST /api-keys/{keyId}/webhooks/{subscriptionId}/skip",
  stepUp: "POST /auth/step-up",
  streamApiKey: "GET /api-keys/{keyId}/stream text/event-stream",
  takeBackup: "GET /relay/backup application/x-ndjson",
  testFilter: "POST /api-keys/{keyId}/webhooks/{subscriptionId}/filter/test",
  testSubscription: "POST /api-keys/{keyId}/webhooks/{subscriptionId}/test",
  testTransform: "POST /api-keys/{keyId}/webhooks/{subscriptionId}/transform/test",
  updateSubscription: "PATCH /api-keys/{keyId}/webhooks/{subscriptionId}",
} as const;
/** The codes of problems. */
export type ProblemCode =
  | "INVALID_JSON"
  | "VALIDATION_FAILED"
  | "UNAUTHENTICATED"
  | "STEP_UP_REQUIRED"
  | "FORBIDDEN"
  | "NOT_FOUND"
  | "METHOD_NOT_ALLOWED"
  | "NOT_ACCEPTABLE"
  | "IDEMPOTENCY_MISMATCH"
  | "SUBSCRIPTION_LIMIT_REACHED"
  | "NOT_REPLAYABLE"
  | "NOT_PENDING"
  | "DELIVERY_UNDER_WAY"
  | "CONFLICT"
  | "PAYLOAD_TOO_LARGE"
  | "UNSUPPORTED_MEDIA_TYPE"
  | "URL_NOT_ALLOWED"
  | "ABUSE_SUSPEND"
  | "RATE_LIMIT_EXCEEDED"
  | "BURST_EXCEEDED"
  | "PROVIDER_BACKPRESSURE"
  | "INTERNAL_ERROR"
  | "UPSTREAM_UNAVAILABLE"
  | "STORAGE_UNAVAILABLE"
  | "STORAGE_FULL"
  | "SHUTTING_DOWN"
  | "UPSTREAM_NOT_CONFIGURED";

export interface paths {
    "/api-keys/{keyId}/webhooks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the subscriptions of a key */
        get: operations["listSubscriptions"];
        put?: never;
        /** Create a subscription */
        post: operations["createSubscription"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/webhooks/{subscriptionId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a subscription */
        get: operations["getSubscription"];
        put?: never;
        post?: never;
        /** Delete a subscription and cancel its deliveries; nothing is sent any more once this has answered */
        delete: operations["deleteSubscription"];
        options?: never;
        head?: never;
        /** Update a subscription; what is left out stays as it is */
        patch: operations["updateSubscription"];
        trace?: never;
    };
    "/api-keys/{keyId}/webhooks/{subscriptionId}/rotate-secret": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Give a subscription a new secret; asks for a fresh second factor */
        post: operations["rotateSecret"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/webhooks/{subscriptionId}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send a test event now, once */
        post: operations["testSubscription"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/webhooks/{subscriptionId}/filter/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Test a filter on an event: whether it matches, and why */
        post: operations["testFilter"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/webhooks/{subscriptionId}/transform/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Test a transform on an event: the body that it makes, or why it makes none */
        post: operations["testTransform"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List or search the events of a key, newest first; each page looks at a bounded number of them */
        get: operations["listEvents"];
        put?: never;
        /** Publish an event by hand, as a manager of the key; a 202 means that it is stored */
        post: operations["publishEventByHand"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/events/{eventId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show an event with its data and its deliveries, a page of them */
        get: operations["getEvent"];
        put?: never;
        post?: never;
        /** Erase an event with its data and deliveries, pending ones too: no attempt begins any more; its last bytes leave the files soon after */
        delete: operations["deleteEvent"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/events/{eventId}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send an event again: its failed deliveries, or to one subscription */
        post: operations["replayEvent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/webhooks/{subscriptionId}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List one subscription's deliveries, newest event first */
        get: operations["listDeliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/webhooks/{subscriptionId}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send one subscription's failed deliveries again */
        post: operations["replaySubscription"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send the failed deliveries of a key's active subscriptions again */
        post: operations["replayApiKey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/webhooks/{subscriptionId}/order": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show what of an ordered subscription waits for its turn, and what holds it up */
        get: operations["getOrder"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/webhooks/{subscriptionId}/skip": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Skip failed deliveries that hold up those behind them; they stay failed and replayable */
        post: operations["skipHeldDeliveries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/attempts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the attempts of a key, newest event first, of the newest cycle of each delivery; each page looks at a bounded number of events */
        get: operations["listAttempts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/attempts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the attempts of a delivery over all its replays, newest first */
        get: operations["listDeliveryAttempts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/attempt": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make the next attempt of a pending delivery now; it counts like any other */
        post: operations["attemptDelivery"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Cancel a pending delivery; a replay to this subscription sends it all the same */
        post: operations["cancelDelivery"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Replay, try or cancel deliveries that were selected, and report the result of each */
        post: operations["changeDeliveries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/event-types/{eventType}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show an event type: its schema, and an example */
        get: operations["getEventType"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/transforms": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the transforms that a subscription may name */
        get: operations["listTransforms"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the keys that the token owns and that are in use, with their figures where a range is given */
        get: operations["listApiKeys"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/event-types": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the names of events: those of the catalogue and those used on keys that the token owns */
        get: operations["listEventTypes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Erase a key with its subscriptions, events and deliveries; asks for a fresh second factor */
        delete: operations["deleteApiKey"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/portal-links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make a link that opens the portal of this key, and nothing else, until it expires */
        post: operations["createPortalLink"];
        /** End all links to the portal of this key */
        delete: operations["revokePortalLinks"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List who changed what, newest first; with what concerns the whole relay, for tokens that own every key */
        get: operations["listAuditLines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Figures of a key for charts, and how its subscriptions are */
        get: operations["getStats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/attention": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List what needs attention on a key, the worst first: why, since when, and what helps */
        get: operations["listAttention"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/attention/acknowledge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Acknowledge what needs attention, until it changes */
        post: operations["acknowledgeAttention"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/relay/attention": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List what needs attention of the relay and on all keys, in their order; for tokens that own every key */
        get: operations["listRelayAttention"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/relay/attention/acknowledge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Acknowledge what needs attention of a part of the relay; for tokens that own every key */
        post: operations["acknowledgeRelayAttention"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/relay/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Nodes, storage and backlog; for tokens that own every key */
        get: operations["getRelayStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/relay/rekey": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Seal all secrets again, with the present master key; for tokens that own every key, with a fresh second factor */
        post: operations["rekey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api-keys/{keyId}/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What happens on a key, as it happens, as server-sent events */
        get: operations["streamApiKey"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/relay/backup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Everything that is stored, as it is at the end of the answer; for tokens that own every key, with a fresh second factor */
        get: operations["takeBackup"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/step-up": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Show the second factor again */
        post: operations["stepUp"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End the session: its tokens are dead on every node */
        post: operations["logout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/totp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Turn the second factor on with a first code */
        put: operations["confirmTotp"];
        /** Begin a second factor; changing one needs a code of it */
        post: operations["beginTotp"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the accounts */
        get: operations["listUsers"];
        put?: never;
        /** Make an account */
        post: operations["createUser"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/users/{username}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Remove an account and end its sessions */
        delete: operations["deleteUser"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/users/{username}/reset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Change an account's password, second factor or access; its sessions end */
        post: operations["resetUser"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/users/{username}/totp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Turn it on with a first code */
        put: operations["confirmTotpOfUser"];
        /** Begin a second factor for an account */
        post: operations["beginTotpOfUser"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Publish events; a 202 means that they are stored
         * @description One event, a list of them, one a line (NDJSON), or CloudEvents (`application/cloudevents+json`, `application/cloudevents-batch+json`, or binary: `ce-…` headers and any content type); at most 8 MiB and 1,000 events a request. `Content-Encoding` may be `gzip` or `deflate`. All or nothing: where one of them is wrong, none is stored. An event that is published again, with the same id, type, headers, data and (where given) createdAt, is answered with `duplicate: true`; anything else under that id is a 409.
         */
        post: operations["publishEvents"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface webhooks {
    event: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * An event, sent to the URL of each subscription that lists its name
         * @description Check one of the two signatures over the raw body before you parse it, and compare in constant time. An answer that is no 2xx is tried again, up to 5 times in all; then the delivery is `failed` and can be replayed. A subscription with a transform gets the body that its transform makes instead.
         */
        post: operations["receiveEvent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "relay:breaker.opened": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * relay:breaker.opened
         * @description The circuit breaker pauses a subscription.
         */
        post: operations["receiveRelayBreakerOpened"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "relay:breaker.closed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * relay:breaker.closed
         * @description A subscription that was paused has taken an attempt again.
         */
        post: operations["receiveRelayBreakerClosed"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "relay:subscription.failing": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * relay:subscription.failing
         * @description A delivery has failed for good. Others within an hour are only counted.
         */
        post: operations["receiveRelaySubscriptionFailing"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "relay:subscription.disabled": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * relay:subscription.disabled
         * @description A subscription is disabled.
         */
        post: operations["receiveRelaySubscriptionDisabled"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "relay:secret.expiring": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * relay:secret.expiring
         * @description A quarter of the overlap of a rotation is left: use the new secret from now on.
         */
        post: operations["receiveRelaySecretExpiring"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "relay:pending.high": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * relay:pending.high
         * @description More deliveries are pending than `notify.pendingPerKey`, or than `notify.pending` in all.
         */
        post: operations["receiveRelayPendingHigh"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "relay:attention.needed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * relay:attention.needed
         * @description Something needs attention of which no other notice tells: order that is held, a rate limit, a certificate, a part of the relay.
         */
        post: operations["receiveRelayAttentionNeeded"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "relay:attention.recovered": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * relay:attention.recovered
         * @description What `relay:attention.needed` told of is over.
         */
        post: operations["receiveRelayAttentionRecovered"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "relay:delivery.failed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * relay:delivery.failed
         * @description A delivery has failed for good: one event for each.
         */
        post: operations["receiveRelayDeliveryFailed"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface components {
    schemas: {
        Problem: {
            type: string;
            title: string;
            status: number;
            detail: string;
            instance: string;
            code: string;
            errors?: {
                path: string;
                message: string;
                reason?: string;
            }[];
            retryAfter?: number;
        };
        SubscriptionCreate: {
            /** @example https://hooks.example.com/relay */
            url: string;
            /** @description Names of the events wanted; repeats are folded. */
            events: string[];
            description?: string | null;
            /** @description Most attempts a second. Each node keeps it by itself: with two nodes it may be twice as many. */
            rateLimit?: {
                perSecond: number;
            } | null;
            timeoutMs?: number | null;
            retry?: components["schemas"]["RetryPolicy"] | null;
            clientCertificate?: {
                /** @description PEM: the certificate first, those that issued it after it. */
                cert: string;
                /** @description PEM: its private key, without a passphrase. */
                key: string;
            } | null;
            filter?: components["schemas"]["Filter"] | null;
            /** @description A transform of the relay's config, which makes the body of each delivery. */
            transform?: string | null;
            /** @description Deliveries go one after another, in the order in which their events were accepted. `false` and `null` clear it, with the two below. */
            ordered?: boolean | null;
            /** @description The path of a value in the event, such as `data.account`: only deliveries of equal values wait for each other. */
            orderBy?: components["schemas"]["FilterPath"] | null;
            /** @description What a failed delivery does: with `skip` the next one goes, with `hold` those behind it wait until it is replayed or skipped. `skip` when left out. */
            onFailed?: ("skip" | "hold") | null;
            headers?: {
                [key: string]: string | null;
            } | null;
            oauth2?: {
                /** @example https://login.example.com/oauth2/token */
                tokenUrl: string;
                clientId: string;
                scope?: string;
                audience?: string;
                clientSecret: string;
            } | null;
            secret?: string | null;
            /**
             * @description `disabled`: nothing is sent until it is enabled. `active` when left out.
             * @enum {string}
             */
            status?: "active" | "disabled";
        };
        /** @description When a failed attempt is made again: a list of waits, or a backoff, of which what is left out is as the relay's config has it. */
        RetryPolicy: {
            attempts?: number;
            firstDelayMs?: number;
            factor?: number;
            maxDelayMs?: number;
            /**
             * @description The wait after each attempt but the last, instead of all other fields; together at most three days.
             * @example [
             *       5000,
             *       300000,
             *       1800000,
             *       7200000
             *     ]
             */
            delaysMs?: number[];
        };
        /**
         * @description Conditions on the type and the data of an event. Either a group (`and`, `or`, `not`), or a `path` with one of `equals`, `in`, `exists` and `prefix`, or with a range of numbers. At most 8 levels, 64 parts and 4096 bytes of JSON.
         * @example {
         *       "path": "data.amount",
         *       "gte": 100
         *     }
         */
        Filter: {
            and?: components["schemas"]["Filter"][];
            or?: components["schemas"]["Filter"][];
            not?: components["schemas"]["Filter"];
            path?: components["schemas"]["FilterPath"];
            equals?: string | number | boolean | null;
            in?: (string | number | boolean | null)[];
            exists?: boolean;
            prefix?: string;
            gt?: number;
            gte?: number;
            lt?: number;
            lte?: number;
        };
        /**
         * @description `type`, or a path that begins with `data`. Text is split at dots; a list names keys that have dots themselves. An item of a list is named by its position.
         * @example data.amount
         * @example [
         *       "data",
         *       "amount.net"
         *     ]
         */
        FilterPath: string | string[];
        CreatedSubscription: {
            id: string;
            url: string;
            events: string[];
            /** @description The signing secret that the relay made, shown once, here. Left out where the request gave one. */
            secret?: string;
            /** @enum {string} */
            status: "active" | "disabled";
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            createdAt: string;
            description?: string;
            rateLimit?: {
                perSecond: number;
            };
            timeoutMs?: number;
            retry?: components["schemas"]["RetryBackoff"] | components["schemas"]["RetrySchedule"];
            headers?: {
                [key: string]: null;
            };
            clientCertificate?: {
                subject: string;
                /** @description SHA-256, in hex with colons. */
                fingerprint: string;
                /**
                 * Format: date-time
                 * @description ISO 8601, UTC, milliseconds.
                 */
                notAfter: string;
            };
            oauth2?: {
                tokenUrl: string;
                clientId: string;
                /** @description Always null: it is not answered. */
                clientSecret: string | null;
                scope?: string;
                audience?: string;
            };
            filter?: components["schemas"]["Filter"];
            transform?: string;
            ordered?: boolean;
            orderBy?: string | string[];
            /** @enum {string} */
            onFailed?: "skip" | "hold";
            /**
             * @description `record_damaged`: its stored record is damaged; of what is shown, only its id is certain.
             * @enum {string}
             */
            disabledReason?: "endpoint_gone" | "receiver_disabled" | "endpoint_failing" | "record_damaged";
        };
        RetryBackoff: {
            attempts: number;
            firstDelayMs: number;
            factor: number;
            maxDelayMs: number;
        };
        RetrySchedule: {
            attempts: number;
            delaysMs: number[];
        };
        WarnedMeta: {
            /** Format: date-time */
            timestamp: string;
            /** @description What you may not have meant. */
            warnings?: string[];
        };
        CreatedSubscriptionEnvelope: {
            data: components["schemas"]["CreatedSubscription"];
            meta: components["schemas"]["WarnedMeta"];
        };
        DeliveredEvent: {
            /**
             * @description Unique per API key, and the same in every attempt and replay: skip an id that you have seen.
             * @example evt_01J9ZK3V7Q8R5T2W4X6Y0A1B2C
             */
            id: string;
            /**
             * @description The name of the event. Names that start with `relay:` are the relay's own.
             * @example deposit:paid
             */
            type: string;
            /**
             * @description The API key that the event is of.
             * @example key_1
             */
            keyId: string;
            /**
             * Format: date-time
             * @description When it happened: UTC, with milliseconds.
             */
            createdAt: string;
            /** @description Byte for byte as it was published. */
            data: unknown;
        };
        Subscription: {
            id: string;
            url: string;
            events: string[];
            /** @enum {string} */
            status: "active" | "disabled";
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            createdAt: string;
            description?: string;
            rateLimit?: {
                perSecond: number;
            };
            timeoutMs?: number;
            retry?: components["schemas"]["RetryBackoff"] | components["schemas"]["RetrySchedule"];
            headers?: {
                [key: string]: null;
            };
            clientCertificate?: {
                subject: string;
                /** @description SHA-256, in hex with colons. */
                fingerprint: string;
                /**
                 * Format: date-time
                 * @description ISO 8601, UTC, milliseconds.
                 */
                notAfter: string;
            };
            oauth2?: {
                tokenUrl: string;
                clientId: string;
                /** @description Always null: it is not answered. */
                clientSecret: string | null;
                scope?: string;
                audience?: string;
            };
            filter?: components["schemas"]["Filter"];
            transform?: string;
            ordered?: boolean;
            orderBy?: string | string[];
            /** @enum {string} */
            onFailed?: "skip" | "hold";
            /**
             * @description `record_damaged`: its stored record is damaged; of what is shown, only its id is certain.
             * @enum {string}
             */
            disabledReason?: "endpoint_gone" | "receiver_disabled" | "endpoint_failing" | "record_damaged";
        };
        Meta: {
            /** Format: date-time */
            timestamp: string;
        };
        SubscriptionList: {
            data: components["schemas"]["Subscription"][];
            meta: components["schemas"]["Meta"];
        };
        SubscriptionDetail: {
            id: string;
            url: string;
            events: string[];
            /** @enum {string} */
            status: "active" | "disabled";
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            updatedAt: string;
            description?: string;
            rateLimit?: {
                perSecond: number;
            };
            timeoutMs?: number;
            retry?: components["schemas"]["RetryBackoff"] | components["schemas"]["RetrySchedule"];
            headers?: {
                [key: string]: null;
            };
            clientCertificate?: {
                subject: string;
                /** @description SHA-256, in hex with colons. */
                fingerprint: string;
                /**
                 * Format: date-time
                 * @description ISO 8601, UTC, milliseconds.
                 */
                notAfter: string;
            };
            oauth2?: {
                tokenUrl: string;
                clientId: string;
                /** @description Always null: it is not answered. */
                clientSecret: string | null;
                scope?: string;
                audience?: string;
            };
            filter?: components["schemas"]["Filter"];
            transform?: string;
            ordered?: boolean;
            orderBy?: string | string[];
            /** @enum {string} */
            onFailed?: "skip" | "hold";
            /**
             * @description `record_damaged`: its stored record is damaged; of what is shown, only its id is certain.
             * @enum {string}
             */
            disabledReason?: "endpoint_gone" | "receiver_disabled" | "endpoint_failing" | "record_damaged";
        };
        SubscriptionDetailEnvelope: {
            data: components["schemas"]["SubscriptionDetail"];
            meta: components["schemas"]["Meta"];
        };
        SubscriptionUpdate: {
            /** @example https://hooks.example.com/relay */
            url?: string;
            /** @description Names of the events wanted; repeats are folded. */
            events?: string[];
            /** @enum {string} */
            status?: "active" | "disabled";
            description?: string | null;
            /** @description Most attempts a second. Each node keeps it by itself: with two nodes it may be twice as many. */
            rateLimit?: {
                perSecond: number;
            } | null;
            timeoutMs?: number | null;
            retry?: components["schemas"]["RetryPolicy"] | null;
            clientCertificate?: {
                /** @description PEM: the certificate first, those that issued it after it. */
                cert: string;
                /** @description PEM: its private key, without a passphrase. */
                key: string;
            } | null;
            filter?: components["schemas"]["Filter"] | null;
            /** @description A transform of the relay's config, which makes the body of each delivery. */
            transform?: string | null;
            /** @description Deliveries go one after another, in the order in which their events were accepted. `false` and `null` clear it, with the two below. */
            ordered?: boolean | null;
            /** @description The path of a value in the event, such as `data.account`: only deliveries of equal values wait for each other. */
            orderBy?: components["schemas"]["FilterPath"] | null;
            /** @description What a failed delivery does: with `skip` the next one goes, with `hold` those behind it wait until it is replayed or skipped. `skip` when left out. */
            onFailed?: ("skip" | "hold") | null;
            headers?: {
                [key: string]: string | null;
            } | null;
            oauth2?: {
                /** @example https://login.example.com/oauth2/token */
                tokenUrl: string;
                clientId: string;
                scope?: string;
                audience?: string;
                clientSecret: string | null;
            } | null;
        };
        UpdatedSubscription: {
            id: string;
            url: string;
            events: string[];
            /** @enum {string} */
            status: "active" | "disabled";
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            updatedAt: string;
            description?: string;
            rateLimit?: {
                perSecond: number;
            };
            timeoutMs?: number;
            retry?: components["schemas"]["RetryBackoff"] | components["schemas"]["RetrySchedule"];
            headers?: {
                [key: string]: null;
            };
            clientCertificate?: {
                subject: string;
                /** @description SHA-256, in hex with colons. */
                fingerprint: string;
                /**
                 * Format: date-time
                 * @description ISO 8601, UTC, milliseconds.
                 */
                notAfter: string;
            };
            oauth2?: {
                tokenUrl: string;
                clientId: string;
                /** @description Always null: it is not answered. */
                clientSecret: string | null;
                scope?: string;
                audience?: string;
            };
            filter?: components["schemas"]["Filter"];
            transform?: string;
            ordered?: boolean;
            orderBy?: string | string[];
            /** @enum {string} */
            onFailed?: "skip" | "hold";
            /**
             * @description `record_damaged`: its stored record is damaged; of what is shown, only its id is certain.
             * @enum {string}
             */
            disabledReason?: "endpoint_gone" | "receiver_disabled" | "endpoint_failing" | "record_damaged";
        };
        UpdatedSubscriptionEnvelope: {
            data: components["schemas"]["UpdatedSubscription"];
            meta: components["schemas"]["WarnedMeta"];
        };
        RotateSecret: {
            /**
             * @description How long the old secret goes on signing beside the new one; 0 ends it now.
             * @default 86400
             */
            overlapSeconds: number;
        };
        RotatedSubscription: {
            id: string;
            url: string;
            events: string[];
            /** @enum {string} */
            status: "active" | "disabled";
            /** @description The signing secret. Shown once, here. */
            secret: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            updatedAt: string;
            previousSecretExpiresAt: string | null;
        };
        RotatedSubscriptionEnvelope: {
            data: components["schemas"]["RotatedSubscription"];
            meta: components["schemas"]["Meta"];
        };
        TestEventRequest: {
            /**
             * @description An event type whose example is sent. Without it `relay:ping` is sent.
             * @example deposit:paid
             */
            type?: string;
        };
        Attempt: {
            id: string;
            cycle: number;
            number: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            startedAt: string;
            durationMs: number;
            statusCode?: number;
            /** @enum {string} */
            error?: "dns" | "guard" | "connect" | "tls" | "timeout" | "reset" | "protocol" | "token" | "transform";
            /** @description Why it failed, and what to do, without addresses: what of the name, the connection or TLS failed, which rule of the guard refused, what the OAuth 2 server answered, why the transform made no body. Of a test event, that the connection of its URL is away. */
            detail?: string;
            responseExcerpt?: string;
            responseTruncated?: boolean;
            /** @description The transform that made the body. */
            transform?: string;
        };
        AttemptEnvelope: {
            data: components["schemas"]["Attempt"];
            meta: components["schemas"]["Meta"];
        };
        FilterTestRequest: {
            /** @description A stored event of the key. */
            eventId?: string;
            /** @description An event that is not stored. */
            event?: {
                type: string;
                data: unknown;
            };
            /** @description Judged in place of the stored filter; `null` stands for none. */
            filter?: components["schemas"]["Filter"] | null;
        };
        FilterTest: {
            /** @description Whether the subscription would get the event: both of the following. */
            matched: boolean;
            /** @description Whether one of the subscription's event names matches. */
            typeMatched: boolean;
            /** @description Whether the filter matches; true when there is none. */
            filterMatched: boolean;
            type: string;
            /** @description The filter that was judged. */
            filter: components["schemas"]["Filter"] | null;
            conditions: components["schemas"]["FilterCondition"][];
        };
        FilterCondition: {
            /**
             * @description Where the condition stands in the filter.
             * @example filter.and[1]
             */
            at: string;
            condition: components["schemas"]["Filter"];
            matched: boolean;
            /** @description Whether the outcome of the filter follows from this condition. */
            decided: boolean;
            /**
             * @description The JSON of the value at the path, cut off when long; or `missing`, `a list`, `an object`.
             * @example "EUR"
             * @example missing
             */
            found: string;
        };
        FilterTestEnvelope: {
            data: components["schemas"]["FilterTest"];
            meta: components["schemas"]["Meta"];
        };
        TransformTestRequest: {
            /** @description A stored event of the key. */
            eventId?: string;
            /** @description An event that is not stored. */
            event?: {
                type: string;
                data: unknown;
            };
            /** @description Run in place of the subscription's own; `null` stands for none. */
            transform?: string | null;
        };
        TransformTest: {
            /** @description The transform that was run; null when there is none. */
            transform: string | null;
            /** @description Whether there is a body to send. */
            made: boolean;
            /** @description The body as it would be sent and signed; null when there is none. */
            body: string | null;
            /**
             * @description Why there is none, as `detail` of an attempt says it.
             * @example slack threw Error: no
             */
            error: string | null;
        };
        TransformTestEnvelope: {
            data: components["schemas"]["TransformTest"];
            meta: components["schemas"]["Meta"];
        };
        Event: {
            id: string;
            type: string;
            keyId: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            acceptedAt: string;
            /** @enum {string} */
            status: "pending" | "delivered" | "failed" | "cancelled" | "unmatched";
            /** @description Its stored record is damaged: what is shown of it may be wrong */
            damaged?: boolean;
            /** @description How many subscriptions get it. */
            recipients: number;
            /** @description How many of its deliveries are in which state; the rest is cancelled. Left out where it has very many. */
            deliveryCounts?: {
                delivered: number;
                failed: number;
                pending: number;
                total: number;
            };
            /** @description The first three of them. Left out where it has very many. */
            subscriptionIds?: string[];
            /** @description Of the only one: its description, or else the host of its URL. */
            subscriptionName?: string;
            /** @description The newest one of all its deliveries. Left out where it has very many. */
            lastAttempt?: components["schemas"]["LastAttempt"];
        };
        LastAttempt: {
            subscriptionId: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            at: string;
            statusCode?: number;
            /** @enum {string} */
            error?: "dns" | "guard" | "connect" | "tls" | "timeout" | "reset" | "protocol" | "token" | "transform";
        };
        PageMeta: {
            /** Format: date-time */
            timestamp: string;
            /** @description Where the next page begins, while there is more. */
            nextCursor?: string;
            /**
             * Format: date-time
             * @description How far back the page has looked, in a list of events: a page may be empty and still have a next one.
             */
            searchedTo?: string;
        };
        EventPage: {
            data: components["schemas"]["Event"][];
            meta: components["schemas"]["PageMeta"];
        };
        EventDetail: {
            id: string;
            type: string;
            keyId: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            acceptedAt: string;
            /** @enum {string} */
            status: "pending" | "delivered" | "failed" | "cancelled" | "unmatched";
            /** @description Its stored record is damaged: what is shown of it may be wrong */
            damaged?: boolean;
            /** @description Sent with its deliveries. Left out where it has none. */
            headers?: {
                [key: string]: string;
            };
            data: unknown;
            deliveries: components["schemas"]["EventDelivery"][];
        };
        EventDelivery: {
            id: string;
            subscriptionId: string;
            /** @description What people call the subscription: its description, or else the host of its URL. */
            subscriptionName?: string;
            /** @enum {string} */
            status: "pending" | "delivered" | "failed" | "cancelled";
            /** @enum {string} */
            reason?: "exhausted" | "endpoint_gone" | "receiver_disabled" | "receiver_aborted" | "subscription_disabled" | "subscription_deleted" | "cancel_requested" | "record_damaged";
            cycle: number;
            attempts: components["schemas"]["Attempt"][];
            /** @description It goes in order. Before its first attempt it may wait for its turn. */
            inOrder?: boolean;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            nextAttemptAt?: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            updatedAt: string;
        };
        EventDetailEnvelope: {
            data: components["schemas"]["EventDetail"];
            meta: components["schemas"]["PageMeta"];
        };
        Replay: {
            subscriptionId?: string;
            force?: boolean;
        };
        Replayed: {
            /** @description How many are sent again. */
            deliveries: number;
        };
        ReplayedEnvelope: {
            data: components["schemas"]["Replayed"];
            meta: components["schemas"]["Meta"];
        };
        /** @description At most 64 KiB. */
        PublishRequest: {
            /**
             * @description A name of the catalogue, where there is one. Names that start with `relay:` are the relay's own.
             * @example deposit:paid
             */
            type: string;
            /**
             * @description Any JSON without repeated names. It reaches receivers byte for byte.
             * @example {
             *       "amount": "12.50",
             *       "currency": "EUR"
             *     }
             */
            data: unknown;
            /**
             * @description An id of your own, unique per key; made when left out.
             * @example invoice-17
             */
            id?: string;
            /**
             * Format: date-time
             * @description When it happened; the time of acceptance when left out.
             */
            createdAt?: string;
            /** @description Sent with its deliveries, as those of `POST /events`. */
            headers?: {
                [key: string]: string;
            };
        };
        PublishedEvent: {
            id: string;
            type: string;
            keyId: string;
            /** Format: date-time */
            createdAt: string;
            /** @description How many subscriptions it goes to. */
            deliveries: number;
            /** @description True: it was stored before, and is not sent again. */
            duplicate: boolean;
        };
        PublishedEventEnvelope: {
            data: components["schemas"]["PublishedEvent"];
            meta: components["schemas"]["Meta"];
        };
        Delivery: {
            eventId: string;
            /** @description Of its event. Left out where that is gone or damaged. */
            type?: string;
            id: string;
            subscriptionId: string;
            /** @description What people call the subscription: its description, or else the host of its URL. */
            subscriptionName?: string;
            /** @enum {string} */
            status: "pending" | "delivered" | "failed" | "cancelled";
            /** @enum {string} */
            reason?: "exhausted" | "endpoint_gone" | "receiver_disabled" | "receiver_aborted" | "subscription_disabled" | "subscription_deleted" | "cancel_requested" | "record_damaged";
            cycle: number;
            attempts: components["schemas"]["Attempt"][];
            /** @description It goes in order. Before its first attempt it may wait for its turn. */
            inOrder?: boolean;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            nextAttemptAt?: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            updatedAt: string;
        };
        DeliveryPage: {
            data: components["schemas"]["Delivery"][];
            meta: components["schemas"]["PageMeta"];
        };
        BulkReplay: {
            /** Format: date-time */
            since?: string;
            /** Format: date-time */
            until?: string;
            /** @default false */
            dryRun: boolean;
            /** @default 10000 */
            limit: number;
            /** @default 50 */
            perSecond: number;
        };
        BulkReplayed: {
            matched: number;
            replayed: number;
            more: boolean;
        };
        BulkReplayedEnvelope: {
            data: components["schemas"]["BulkReplayed"];
            meta: components["schemas"]["Meta"];
        };
        Order: {
            ordered: boolean;
            /** @description Deliveries that wait for their turn. */
            waiting: number;
            /** @description Failed deliveries that hold up those behind them. One whose record is damaged is empty. */
            held: components["schemas"]["HeldDelivery"][];
        };
        HeldDelivery: {
            eventId?: string;
            deliveryId?: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            since?: string;
        };
        OrderEnvelope: {
            data: components["schemas"]["Order"];
            meta: components["schemas"]["Meta"];
        };
        Skip: {
            /** @description Only the held delivery of this event. */
            eventId?: string;
        };
        Skipped: {
            skipped: number;
        };
        SkippedEnvelope: {
            data: components["schemas"]["Skipped"];
            meta: components["schemas"]["Meta"];
        };
        FoundAttempt: {
            id: string;
            cycle: number;
            number: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            startedAt: string;
            durationMs: number;
            statusCode?: number;
            /** @enum {string} */
            error?: "dns" | "guard" | "connect" | "tls" | "timeout" | "reset" | "protocol" | "token" | "transform";
            /** @description Why it failed, and what to do, without addresses: what of the name, the connection or TLS failed, which rule of the guard refused, what the OAuth 2 server answered, why the transform made no body. Of a test event, that the connection of its URL is away. */
            detail?: string;
            responseExcerpt?: string;
            responseTruncated?: boolean;
            /** @description The transform that made the body. */
            transform?: string;
            eventId: string;
            type: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            acceptedAt: string;
            subscriptionId: string;
            /** @description What people call the subscription: its description, or else the host of its URL. */
            subscriptionName?: string;
            /** @enum {string} */
            deliveryStatus: "pending" | "delivered" | "failed" | "cancelled";
        };
        FoundAttemptPage: {
            data: components["schemas"]["FoundAttempt"][];
            meta: components["schemas"]["PageMeta"];
        };
        AttemptPage: {
            data: components["schemas"]["Attempt"][];
            meta: components["schemas"]["PageMeta"];
        };
        SelectedDeliveries: {
            /**
             * @description `replay` sends failed deliveries again; `attempt` tries pending ones now; `cancel` cancels them.
             * @enum {string}
             */
            action: "replay" | "attempt" | "cancel";
            deliveries: components["schemas"]["SelectedDelivery"][];
        };
        SelectedDelivery: {
            eventId: string;
            /** @description Only its delivery to this one. Left out: to all of which the action can be meant. */
            subscriptionId?: string;
        };
        SelectedResult: {
            eventId: string;
            subscriptionId?: string;
            /** @description How many the action was done to. */
            deliveries: number;
            /** @description There may be more: one request tries or cancels 200 deliveries at most. */
            more?: boolean;
            /** @description Why it was not done to (all of) them; a code of the errors. */
            code?: string;
            detail?: string;
        };
        SelectedResultList: {
            data: components["schemas"]["SelectedResult"][];
            meta: components["schemas"]["Meta"];
        };
        EventTypeDetail: {
            name: string;
            description?: string;
            /** @description Do not begin to use it. */
            deprecated?: boolean;
            /**
             * @description What is done with an event whose data does not match the schema. Left out where there is no schema.
             * @enum {string}
             */
            validate?: "off" | "warn" | "refuse";
            /** @description What `data` must be: JSON Schema 2020-12. */
            schema?: unknown;
            /** @description A `data` that matches the schema. */
            example?: unknown;
        };
        EventTypeDetailEnvelope: {
            data: components["schemas"]["EventTypeDetail"];
            meta: components["schemas"]["Meta"];
        };
        Transform: {
            name: string;
        };
        TransformList: {
            data: components["schemas"]["Transform"][];
            meta: components["schemas"]["Meta"];
        };
        ApiKey: {
            id: string;
            figures?: {
                accepted: number;
                filtered: number;
                delivered: number;
                failed: number;
                attempts: number;
                p50Ms: number | null;
                p99Ms: number | null;
            };
        };
        ApiKeyPage: {
            data: components["schemas"]["ApiKey"][];
            meta: components["schemas"]["PageMeta"];
        };
        EventType: {
            name: string;
            description?: string;
            /** @description Do not begin to use it. */
            deprecated?: boolean;
            /**
             * @description What is done with an event whose data does not match the schema. Left out where there is no schema.
             * @enum {string}
             */
            validate?: "off" | "warn" | "refuse";
            /** @description A test event may be its example. */
            hasExample?: boolean;
        };
        EventTypePage: {
            data: components["schemas"]["EventType"][];
            meta: components["schemas"]["PageMeta"];
        };
        KeyErasure: {
            /** @description The API key. */
            id: string;
            /** @description When the erasure that is under way began. */
            startedAt: string;
        };
        KeyErasureEnvelope: {
            data: components["schemas"]["KeyErasure"];
            meta: components["schemas"]["Meta"];
        };
        PortalLinkRequest: {
            /**
             * @description `read`: the holder looks, and changes nothing.
             * @enum {string}
             */
            access: "manage" | "read";
            /**
             * @description How long the link opens the portal.
             * @default 3600
             */
            expiresInSeconds: number;
        };
        PortalLink: {
            /** @description Names the link in the audit trail, where its holder is `portal:` and this id. */
            id: string;
            /** @description Holds the token behind `#`. Everybody who has the link may use it until it expires. Without `portal.url` it is relative to the address of the relay, unless that was asked by its own address. */
            url: string;
            /** Format: date-time */
            expiresAt: string;
        };
        PortalLinkEnvelope: {
            data: components["schemas"]["PortalLink"];
            meta: components["schemas"]["Meta"];
        };
        AuditLine: {
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            at: string;
            by: string;
            address?: string;
            requestId?: string;
            action: string;
            target: string;
            /** @enum {string} */
            result: "done" | "refused";
            detail?: string;
        };
        AuditLinePage: {
            data: components["schemas"]["AuditLine"][];
            meta: components["schemas"]["PageMeta"];
        };
        KeyStats: {
            /** @enum {string} */
            range: "1h" | "24h" | "7d";
            stepMs: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            from: string;
            /** @description One number a bucket, oldest first; null: nothing measured. */
            series: components["schemas"]["Series"];
            totals: {
                accepted: number;
                filtered: number;
                delivered: number;
                failed: number;
                attempts: number;
                p50Ms: number | null;
                p99Ms: number | null;
                refused: {
                    RATE_LIMIT_EXCEEDED: number;
                    BURST_EXCEEDED: number;
                    PROVIDER_BACKPRESSURE: number;
                    ABUSE_SUSPEND: number;
                };
            };
            subscriptions: components["schemas"]["SubscriptionAtAGlance"][];
            /** @description How many more there are, with fewer events and attempts. */
            subscriptionsLeft?: number;
        };
        Series: {
            accepted: (number | null)[];
            filtered: (number | null)[];
            delivered: (number | null)[];
            failed: (number | null)[];
            attempts: (number | null)[];
            p50Ms: (number | null)[];
            p99Ms: (number | null)[];
            backlog: (number | null)[];
            refused: {
                RATE_LIMIT_EXCEEDED: (number | null)[];
                BURST_EXCEEDED: (number | null)[];
                PROVIDER_BACKPRESSURE: (number | null)[];
                ABUSE_SUSPEND: (number | null)[];
            };
        };
        SubscriptionAtAGlance: {
            id: string;
            url: string;
            events: string[];
            /** @enum {string} */
            status: "active" | "disabled";
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            createdAt: string;
            description?: string;
            rateLimit?: {
                perSecond: number;
            };
            timeoutMs?: number;
            retry?: components["schemas"]["RetryBackoff"] | components["schemas"]["RetrySchedule"];
            headers?: {
                [key: string]: null;
            };
            clientCertificate?: {
                subject: string;
                /** @description SHA-256, in hex with colons. */
                fingerprint: string;
                /**
                 * Format: date-time
                 * @description ISO 8601, UTC, milliseconds.
                 */
                notAfter: string;
            };
            oauth2?: {
                tokenUrl: string;
                clientId: string;
                /** @description Always null: it is not answered. */
                clientSecret: string | null;
                scope?: string;
                audience?: string;
            };
            filter?: components["schemas"]["Filter"];
            transform?: string;
            ordered?: boolean;
            orderBy?: string | string[];
            /** @enum {string} */
            onFailed?: "skip" | "hold";
            /**
             * @description `record_damaged`: its stored record is damaged; of what is shown, only its id is certain.
             * @enum {string}
             */
            disabledReason?: "endpoint_gone" | "receiver_disabled" | "endpoint_failing" | "record_damaged";
            figures: {
                accepted: number;
                filtered: number;
                delivered: number;
                failed: number;
                attempts: number;
                p50Ms: number | null;
                p99Ms: number | null;
                /** @description Deliveries pending now; 1,000 stands for that or more. */
                backlog: number;
            };
            failuresInARow: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            failingSince?: string;
            /**
             * Format: date-time
             * @description The breaker rests it until then.
             */
            restsUntil?: string;
            /** @description Where `recent` asks for it: what its newest attempts were answered, or where they failed; the newest last. */
            recentAttempts?: (number | ("dns" | "guard" | "connect" | "tls" | "timeout" | "reset" | "protocol" | "token" | "transform"))[];
            /** @description Of the newest event that it was tried with. */
            lastDelivery?: components["schemas"]["LastDelivery"];
        };
        LastDelivery: {
            eventId: string;
            /** @enum {string} */
            status: "pending" | "delivered" | "failed" | "cancelled";
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            at: string;
            statusCode?: number;
            /** @enum {string} */
            error?: "dns" | "guard" | "connect" | "tls" | "timeout" | "reset" | "protocol" | "token" | "transform";
        };
        KeyStatsEnvelope: {
            data: components["schemas"]["KeyStats"];
            meta: components["schemas"]["Meta"];
        };
        Attention: {
            /** @description Names it for an acknowledgement. */
            id: string;
            /** @enum {string} */
            state: "down" | "disabled" | "held" | "failing" | "rate_limited" | "certificate_ending" | "secret_ending" | "publishing_refused" | "source_away" | "transport_away" | "not_ready";
            /** @enum {string} */
            severity: "error" | "warning";
            keyId?: string;
            subscriptionId?: string;
            /** @description What people call the subscription: its description, or else the host of its URL. */
            subscriptionName?: string;
            /** @description The part of the relay, as `/readyz` names it, on the `node`. */
            part?: string;
            node?: string;
            reason: string;
            /** @description What helps. */
            help: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            since?: string;
            /**
             * Format: date-time
             * @description When an endpoint that is down is tried next.
             */
            nextAttemptAt?: string;
            /**
             * Format: date-time
             * @description When the certificate, or the old secret, ends.
             */
            endsAt?: string;
            /** @description Deliveries that wait. */
            waiting?: number;
            /** @description Deliveries that have failed for good within seven days, counted up to a bound. */
            failed?: number;
            /** @description The bound was reached: there may be more. */
            failedMore?: boolean;
            /** @description Failures that are alike together; the newest first. */
            failures?: components["schemas"]["AlikeFailures"][];
            /** @description Somebody knows of it, and since then nothing new has come to it. Portal links do not see who. */
            acknowledged?: {
                /**
                 * Format: date-time
                 * @description ISO 8601, UTC, milliseconds.
                 */
                at: string;
                by?: string;
            };
        };
        AlikeFailures: {
            /** @enum {string} */
            error?: "dns" | "guard" | "connect" | "tls" | "timeout" | "reset" | "protocol" | "token" | "transform";
            statusCode?: number;
            /** @description Why, without addresses; of deliveries that were ended without an attempt, how. */
            detail?: string;
            /** @description Deliveries whose last attempt failed so, among the newest that were looked at. */
            count: number;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            first: string;
            /**
             * Format: date-time
             * @description ISO 8601, UTC, milliseconds.
             */
            last: string;
            /** @description The newest of them. */
            example: {
                eventId: string;
                deliveryId: string;
            };
        };
        AttentionList: {
            data: components["schemas"]["Attention"][];
            meta: components["schemas"]["Meta"];
        };
        Acknowledge: {
            /** @description As the list names it. */
            id: string;
            /**
             * @description `false` takes an acknowledgement back.
             * @default true
             */
            acknowledged: boolean;
        };
        Acknowledged: {
            id: string;
            acknowledged: boolean;
        };
        AcknowledgedEnvelope: {
            data: components["schemas"]["Acknowledged"];
            meta: components["schemas"]["Meta"];
        };
        AttentionPage: {
            data: components["schemas"]["Attention"][];
            meta: components["schemas"]["PageMeta"];
        };
        RelayStatus: {
            [key: string]: unknown;
        };
        RelayStatusEnvelope: {
            data: components["schemas"]["RelayStatus"];
            meta: components["schemas"]["Meta"];
        };
        Rekeyed: {
            /**
             * @description `running`: ask again. `blocked`: the subscriptions named can be opened by no key that is known.
             * @enum {string}
             */
            state: "running" | "done" | "blocked";
            /** @description Subscriptions whose secrets were sealed again. */
            sealed: number;
            unreadable: string[];
        };
        RekeyedEnvelope: {
            data: components["schemas"]["Rekeyed"];
            meta: components["schemas"]["Meta"];
        };
        Health: {
            status: string;
            /** Format: date-time */
            startedAt: string;
        };
        HealthEnvelope: {
            data: components["schemas"]["Health"];
            meta: components["schemas"]["Meta"];
        };
        Readiness: {
            /** @enum {string} */
            status: "ready" | "degraded" | "not ready";
            parts: {
                [key: string]: {
                    ready: boolean;
                    state?: string;
                    required?: boolean;
                };
            };
        };
        ReadinessEnvelope: {
            data: components["schemas"]["Readiness"];
            meta: components["schemas"]["Meta"];
        };
        TokenKeys: {
            keys: {
                [key: string]: string;
            }[];
        };
        LoginRequest: {
            /** @example alice */
            username: string;
            password: string;
            /**
             * @description Of the authenticator app, or a recovery code.
             * @example 123456
             */
            code?: string;
        };
        Grant: {
            /** @description An access token, for 15 minutes unless set otherwise. */
            token: string;
            /** Format: date-time */
            expiresAt: string;
            amr: string[];
        };
        GrantEnvelope: {
            data: components["schemas"]["Grant"];
            meta: components["schemas"]["Meta"];
        };
        CodeRequest: {
            /**
             * @description Of the authenticator app, or a recovery code.
             * @example 123456
             */
            code: string;
        };
        SetupRequest: {
            /**
             * @description Of the authenticator app, or a recovery code.
             * @example 123456
             */
            code: string;
            /**
             * @description Kept in lower case.
             * @example alice
             */
            username: string;
            password: string;
        };
        TotpRequest: {
            password: string;
            /**
             * @description Of the authenticator app, or a recovery code.
             * @example 123456
             */
            code?: string;
        };
        TotpUri: {
            /** @description For the authenticator app (otpauth). */
            uri: string;
        };
        TotpUriEnvelope: {
            data: components["schemas"]["TotpUri"];
            meta: components["schemas"]["Meta"];
        };
        GrantWithCodes: {
            /** @description An access token, for 15 minutes unless set otherwise. */
            token: string;
            /** Format: date-time */
            expiresAt: string;
            amr: string[];
            /** @description Shown once, here. */
            recoveryCodes: string[];
        };
        GrantWithCodesEnvelope: {
            data: components["schemas"]["GrantWithCodes"];
            meta: components["schemas"]["Meta"];
        };
        Account: {
            username: string;
            /**
             * @description Ids of API keys, or `["*"]` for all of them.
             * @example [
             *       "key_1"
             *     ]
             */
            keys: string[];
            /**
             * @description `read`: every request that changes something is refused with 403.
             * @enum {string}
             */
            access: "manage" | "read";
            /** Format: date-time */
            createdAt: string;
            /** Format: date-time */
            lastLoginAt?: string;
            totp: boolean;
            /** @description Its stored record is damaged: remove it, and add it again */
            damaged?: boolean;
        };
        AccountList: {
            data: components["schemas"]["Account"][];
            meta: components["schemas"]["Meta"];
        };
        UserCreate: {
            /**
             * @description Kept in lower case.
             * @example alice
             */
            username: string;
            password: string;
            /**
             * @description Ids of API keys, or `["*"]` for all of them, which is the default.
             * @example [
             *       "key_1"
             *     ]
             */
            keys?: string[];
            /**
             * @description `read`: every request that changes something is refused with 403.
             * @enum {string}
             */
            access?: "manage" | "read";
        };
        NewAccount: {
            username: string;
            /**
             * @description Ids of API keys, or `["*"]` for all of them.
             * @example [
             *       "key_1"
             *     ]
             */
            keys: string[];
            /**
             * @description `read`: every request that changes something is refused with 403.
             * @enum {string}
             */
            access: "manage" | "read";
        };
        NewAccountEnvelope: {
            data: components["schemas"]["NewAccount"];
            meta: components["schemas"]["Meta"];
        };
        UserReset: {
            password?: string;
            /** @description Takes the second factor off. */
            totp?: boolean;
            /**
             * @description `read`: every request that changes something is refused with 403.
             * @enum {string}
             */
            access?: "manage" | "read";
        };
        RecoveryCodes: {
            /** @description Shown once, here. */
            recoveryCodes: string[];
        };
        RecoveryCodesEnvelope: {
            data: components["schemas"]["RecoveryCodes"];
            meta: components["schemas"]["Meta"];
        };
        Publications: components["schemas"]["Publication"] | components["schemas"]["Publication"][];
        /** @description At most 256 KiB. */
        Publication: {
            /**
             * @description A name of the catalogue, where there is one. Names that start with `relay:` are the relay's own.
             * @example deposit:paid
             */
            type: string;
            /**
             * @description The API key that the event is of.
             * @example key_1
             */
            keyId: string;
            /**
             * @description Any JSON, nested at most 64 levels deep. It reaches receivers byte for byte.
             * @example {
             *       "amount": "12.50",
             *       "currency": "EUR"
             *     }
             */
            data: unknown;
            /**
             * @description The publisher's own, unique per key; made when left out.
             * @example invoice-17
             */
            id?: string;
            /**
             * Format: date-time
             * @description RFC 3339, with an offset; the time of acceptance when left out.
             */
            createdAt?: string;
            /**
             * @description Sent with each delivery, where the subscription sets none of that name: at most 16, of 4096 characters. Refused are those of the relay and of the connection, Accept and Authorization.
             * @example {
             *       "x-tenant": "t-1"
             *     }
             */
            headers?: {
                [key: string]: string;
            };
        };
        AcceptedEnvelope: {
            data: components["schemas"]["Accepted"] | components["schemas"]["Accepted"][];
            meta: components["schemas"]["Meta"];
        };
        Accepted: {
            id: string;
            type: string;
            keyId: string;
            /** Format: date-time */
            createdAt: string;
            /** @description How many subscriptions it goes to. */
            deliveries: number;
            /** @description True: it was stored before, and is not sent again. */
            duplicate: boolean;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listSubscriptions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubscriptionList"];
                };
            };
        };
    };
    createSubscription: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SubscriptionCreate"];
            };
        };
        responses: {
            /** @description Success. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedSubscriptionEnvelope"];
                };
            };
        };
    };
    getSubscription: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubscriptionDetailEnvelope"];
                };
            };
        };
    };
    deleteSubscription: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    updateSubscription: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SubscriptionUpdate"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UpdatedSubscriptionEnvelope"];
                };
            };
        };
    };
    rotateSecret: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RotateSecret"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RotatedSubscriptionEnvelope"];
                };
            };
        };
    };
    testSubscription: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TestEventRequest"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AttemptEnvelope"];
                };
            };
        };
    };
    testFilter: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FilterTestRequest"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FilterTestEnvelope"];
                };
            };
        };
    };
    testTransform: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TransformTestRequest"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TransformTestEnvelope"];
                };
            };
        };
    };
    listEvents: {
        parameters: {
            query?: {
                status?: "pending" | "delivered" | "failed" | "cancelled" | "unmatched";
                delivery?: "pending" | "delivered" | "failed";
                type?: string;
                subscriptionId?: string;
                since?: string;
                until?: string;
                id?: string;
                text?: string;
                statusCode?: number;
                error?: "dns" | "guard" | "connect" | "tls" | "timeout" | "reset" | "protocol" | "token" | "transform";
                minDurationMs?: number;
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventPage"];
                };
            };
        };
    };
    publishEventByHand: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PublishRequest"];
            };
        };
        responses: {
            /** @description Success. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PublishedEventEnvelope"];
                };
            };
        };
    };
    getEvent: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path: {
                keyId: string;
                eventId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventDetailEnvelope"];
                };
            };
        };
    };
    deleteEvent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                eventId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    replayEvent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                eventId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Replay"];
            };
        };
        responses: {
            /** @description Success. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayedEnvelope"];
                };
            };
        };
    };
    listDeliveries: {
        parameters: {
            query?: {
                status?: "pending" | "delivered" | "failed" | "cancelled";
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path: {
                keyId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveryPage"];
                };
            };
        };
    };
    replaySubscription: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BulkReplay"];
            };
        };
        responses: {
            /** @description Success. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BulkReplayedEnvelope"];
                };
            };
        };
    };
    replayApiKey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BulkReplay"];
            };
        };
        responses: {
            /** @description Success. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BulkReplayedEnvelope"];
                };
            };
        };
    };
    getOrder: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrderEnvelope"];
                };
            };
        };
    };
    skipHeldDeliveries: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Skip"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkippedEnvelope"];
                };
            };
        };
    };
    listAttempts: {
        parameters: {
            query?: {
                subscriptionId?: string;
                since?: string;
                until?: string;
                statusCode?: number;
                error?: "dns" | "guard" | "connect" | "tls" | "timeout" | "reset" | "protocol" | "token" | "transform";
                minDurationMs?: number;
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FoundAttemptPage"];
                };
            };
        };
    };
    listDeliveryAttempts: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path: {
                keyId: string;
                eventId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AttemptPage"];
                };
            };
        };
    };
    attemptDelivery: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                eventId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    cancelDelivery: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
                eventId: string;
                subscriptionId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    changeDeliveries: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SelectedDeliveries"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SelectedResultList"];
                };
            };
        };
    };
    getEventType: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                eventType: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventTypeDetailEnvelope"];
                };
            };
        };
    };
    listTransforms: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TransformList"];
                };
            };
        };
    };
    listApiKeys: {
        parameters: {
            query?: {
                range?: "1h" | "24h" | "7d";
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiKeyPage"];
                };
            };
        };
    };
    listEventTypes: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventTypePage"];
                };
            };
        };
    };
    deleteApiKey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyErasureEnvelope"];
                };
            };
        };
    };
    createPortalLink: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PortalLinkRequest"];
            };
        };
        responses: {
            /** @description Success. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortalLinkEnvelope"];
                };
            };
        };
    };
    revokePortalLinks: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    listAuditLines: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
                action?: "access" | "account" | "account.created" | "account.removed" | "account.reset" | "accounts" | "accounts.listed" | "attention" | "attention.acknowledged" | "backup" | "backup.taken" | "damaged" | "deliveries" | "deliveries.replayed" | "delivery" | "delivery.cancelled" | "delivery.skipped" | "delivery.tried" | "event" | "event.erased" | "event.published" | "event.replayed" | "key" | "key.erased" | "login" | "logout" | "portal_link" | "portal_link.created" | "portal_links" | "portal_links.revoked" | "second_factor" | "second_factor.begun" | "second_factor.on" | "secret" | "secret.rotated" | "secrets" | "secrets.rekeyed" | "step_up" | "subscription" | "subscription.created" | "subscription.deleted" | "subscription.disabled" | "subscription.tested" | "subscription.updated";
                target?: string;
                by?: string;
            };
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditLinePage"];
                };
            };
        };
    };
    getStats: {
        parameters: {
            query?: {
                range?: "1h" | "24h" | "7d";
                subscriptionId?: string;
                recent?: number;
            };
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyStatsEnvelope"];
                };
            };
        };
    };
    listAttention: {
        parameters: {
            query?: {
                subscriptionId?: string;
            };
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AttentionList"];
                };
            };
        };
    };
    acknowledgeAttention: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Acknowledge"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcknowledgedEnvelope"];
                };
            };
        };
    };
    listRelayAttention: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AttentionPage"];
                };
            };
        };
    };
    acknowledgeRelayAttention: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Acknowledge"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcknowledgedEnvelope"];
                };
            };
        };
    };
    getRelayStatus: {
        parameters: {
            query?: {
                range?: "1h" | "24h" | "7d";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RelayStatusEnvelope"];
                };
            };
        };
    };
    rekey: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RekeyedEnvelope"];
                };
            };
        };
    };
    streamApiKey: {
        parameters: {
            query?: {
                since?: string;
            };
            header?: never;
            path: {
                keyId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A stream. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    takeBackup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A stream. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
        };
    };
    stepUp: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CodeRequest"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GrantEnvelope"];
                };
            };
        };
    };
    logout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    confirmTotp: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CodeRequest"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GrantWithCodesEnvelope"];
                };
            };
        };
    };
    beginTotp: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TotpRequest"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TotpUriEnvelope"];
                };
            };
        };
    };
    listUsers: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccountList"];
                };
            };
        };
    };
    createUser: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UserCreate"];
            };
        };
        responses: {
            /** @description Success. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewAccountEnvelope"];
                };
            };
        };
    };
    deleteUser: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                username: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    resetUser: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                username: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UserReset"];
            };
        };
        responses: {
            /** @description Success. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    confirmTotpOfUser: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                username: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CodeRequest"];
            };
        };
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecoveryCodesEnvelope"];
                };
            };
        };
    };
    beginTotpOfUser: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                username: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Success. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TotpUriEnvelope"];
                };
            };
        };
    };
    publishEvents: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
                traceparent?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Publications"];
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description Stored. A list is answered with a list, in its order. */
            202: {
                headers: {
                    "Relay-Durability"?: "fsync" | "replicated" | "volatile";
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedEnvelope"];
                };
            };
        };
    };
    receiveEvent: {
        parameters: {
            query?: never;
            header: {
                "X-Relay-Webhook-Signature": string;
                "X-Relay-Webhook-Signature-Previous"?: string;
                "webhook-id": string;
                "webhook-timestamp": string;
                "webhook-signature": string;
                "X-Relay-Event": string;
                "X-Relay-Attempt": string;
                "X-Relay-Replay"?: string;
                "Content-Digest": string;
                traceparent?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DeliveredEvent"];
            };
        };
        responses: {
            /** @description The endpoint is gone: the subscription is disabled. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again, not before the time that `Retry-After` names. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again, not before the time that `Retry-After` names. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Delivered, whatever the body says. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    receiveRelayBreakerOpened: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    id: string;
                    /** @constant */
                    type: "relay:breaker.opened";
                    keyId: string;
                    /** Format: date-time */
                    createdAt: string;
                    data: {
                        /** @description The API key that it is about. Only in events of the key `relay:operator`. */
                        keyId?: string;
                        /** @description How many of the kind about the same were held back since the last one. Absent when there was none. */
                        heldBack?: number;
                        /** @description The subscription that it is about. */
                        subscriptionId: string;
                        /** @description The host of its URL. */
                        host?: string;
                        failures: number;
                        /** Format: date-time */
                        failingSince: string;
                        /** Format: date-time */
                        pausedUntil: string;
                    };
                };
            };
        };
        responses: {
            /** @description Delivered, whatever the body says. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    receiveRelayBreakerClosed: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    id: string;
                    /** @constant */
                    type: "relay:breaker.closed";
                    keyId: string;
                    /** Format: date-time */
                    createdAt: string;
                    data: {
                        /** @description The API key that it is about. Only in events of the key `relay:operator`. */
                        keyId?: string;
                        /** @description How many of the kind about the same were held back since the last one. Absent when there was none. */
                        heldBack?: number;
                        /** @description The subscription that it is about. */
                        subscriptionId: string;
                        /** @description The host of its URL. */
                        host?: string;
                        /** Format: date-time */
                        failingSince: string;
                    };
                };
            };
        };
        responses: {
            /** @description Delivered, whatever the body says. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    receiveRelaySubscriptionFailing: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    id: string;
                    /** @constant */
                    type: "relay:subscription.failing";
                    keyId: string;
                    /** Format: date-time */
                    createdAt: string;
                    data: {
                        /** @description The API key that it is about. Only in events of the key `relay:operator`. */
                        keyId?: string;
                        /** @description How many of the kind about the same were held back since the last one. Absent when there was none. */
                        heldBack?: number;
                        subscriptionId: string;
                        /** @description The host of its URL. */
                        host?: string;
                        deliveryId: string;
                        eventId: string;
                        /** @description The type of the event that was not delivered. */
                        type: string;
                        /** @description Why the delivery has failed: `exhausted`, `endpoint_gone`, `receiver_disabled` or `receiver_aborted`. */
                        reason: string;
                        /** @description 0, or how often it was replayed. */
                        cycle: number;
                        /** @description Attempts of this cycle. */
                        attempts: number;
                    };
                };
            };
        };
        responses: {
            /** @description Delivered, whatever the body says. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    receiveRelaySubscriptionDisabled: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    id: string;
                    /** @constant */
                    type: "relay:subscription.disabled";
                    keyId: string;
                    /** Format: date-time */
                    createdAt: string;
                    data: {
                        /** @description The API key that it is about. Only in events of the key `relay:operator`. */
                        keyId?: string;
                        /** @description How many of the kind about the same were held back since the last one. Absent when there was none. */
                        heldBack?: number;
                        /** @description The subscription that it is about. */
                        subscriptionId: string;
                        /** @description The host of its URL. */
                        host?: string;
                        /** @enum {unknown} */
                        reason: "endpoint_gone" | "receiver_disabled" | "endpoint_failing" | "by_hand";
                    };
                };
            };
        };
        responses: {
            /** @description Delivered, whatever the body says. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    receiveRelaySecretExpiring: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    id: string;
                    /** @constant */
                    type: "relay:secret.expiring";
                    keyId: string;
                    /** Format: date-time */
                    createdAt: string;
                    data: {
                        /** @description The API key that it is about. Only in events of the key `relay:operator`. */
                        keyId?: string;
                        /** @description How many of the kind about the same were held back since the last one. Absent when there was none. */
                        heldBack?: number;
                        /** @description The subscription that it is about. */
                        subscriptionId: string;
                        /** @description The host of its URL. */
                        host?: string;
                        /** Format: date-time */
                        previousSecretExpiresAt: string;
                    };
                };
            };
        };
        responses: {
            /** @description Delivered, whatever the body says. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    receiveRelayPendingHigh: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    id: string;
                    /** @constant */
                    type: "relay:pending.high";
                    keyId: string;
                    /** Format: date-time */
                    createdAt: string;
                    data: {
                        /** @description The API key that it is about. Only in events of the key `relay:operator`. */
                        keyId?: string;
                        /** @description How many of the kind about the same were held back since the last one. Absent when there was none. */
                        heldBack?: number;
                        pending: number;
                        bound: number;
                    };
                };
            };
        };
        responses: {
            /** @description Delivered, whatever the body says. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    receiveRelayAttentionNeeded: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    id: string;
                    /** @constant */
                    type: "relay:attention.needed";
                    keyId: string;
                    /** Format: date-time */
                    createdAt: string;
                    data: {
                        /** @description The API key that it is about. Only in events of the key `relay:operator`. */
                        keyId?: string;
                        /** @description How many of the kind about the same were held back since the last one. Absent when there was none. */
                        heldBack?: number;
                        /** @description The subscription that it is about. */
                        subscriptionId?: string;
                        /** @description The host of its URL. */
                        host?: string;
                        /** @description The part of the relay that it is about, where it is about no subscription. */
                        part?: string;
                        /** @description As `GET /relay/attention` names it. */
                        state: string;
                        /** Format: date-time */
                        since?: string;
                        reason: string;
                        help: string;
                    };
                };
            };
        };
        responses: {
            /** @description Delivered, whatever the body says. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    receiveRelayAttentionRecovered: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    id: string;
                    /** @constant */
                    type: "relay:attention.recovered";
                    keyId: string;
                    /** Format: date-time */
                    createdAt: string;
                    data: {
                        /** @description The API key that it is about. Only in events of the key `relay:operator`. */
                        keyId?: string;
                        /** @description How many of the kind about the same were held back since the last one. Absent when there was none. */
                        heldBack?: number;
                        /** @description The subscription that it is about. */
                        subscriptionId?: string;
                        /** @description The host of its URL. */
                        host?: string;
                        /** @description The part of the relay that it is about, where it is about no subscription. */
                        part?: string;
                        /** @description As `GET /relay/attention` names it. */
                        state: string;
                        /** Format: date-time */
                        since?: string;
                    };
                };
            };
        };
        responses: {
            /** @description Delivered, whatever the body says. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    receiveRelayDeliveryFailed: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    id: string;
                    /** @constant */
                    type: "relay:delivery.failed";
                    keyId: string;
                    /** Format: date-time */
                    createdAt: string;
                    data: {
                        /** @description The API key that it is about. Only in events of the key `relay:operator`. */
                        keyId?: string;
                        subscriptionId: string;
                        deliveryId: string;
                        eventId: string;
                        /** @description The type of the event that was not delivered. */
                        type: string;
                        /** @description Why the delivery has failed: `exhausted`, `endpoint_gone`, `receiver_disabled` or `receiver_aborted`. */
                        reason: string;
                        /** @description 0, or how often it was replayed. */
                        cycle: number;
                        /** @description Attempts of this cycle. */
                        attempts: number;
                    };
                };
            };
        };
        responses: {
            /** @description Delivered, whatever the body says. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Tried again. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
}
