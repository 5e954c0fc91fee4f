/** Creates, updates, rotates, disables and deletes subscriptions. Each step is one conditional commit. */
import { MOST_ORDERED } from "../model/delivery.ts";
import { randomId } from "../model/ids.ts";
import { API_KEY, COUNT, SUBSCRIPTION } from "../model/schema.ts";
import type { RepeatedHeaders } from "../model/header-names.ts";
import { OPERATIONAL } from "../model/names.ts";
import { subscriptionDisabled, type Notice } from "../model/notice.ts";
import { Problem } from "../model/problem.ts";
import { storedUrl } from "../model/credentials.ts";
import type { DisabledReason, RetryOptions, SealedSecret, Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Keys, Metrics } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import { auditChange, RELAY, type Actor } from "../records/audit-trail.ts";
import { transact } from "../records/transaction.ts";
import { createRevising, type Revising } from "./revise.ts";
import { endingMark, type Endings } from "../records/endings.ts";
import { holdsUp, skipAllHeld } from "../records/held.ts";
import { countLive, liveOf } from "../records/subscription-cache.ts";
import { createDeletion } from "./delete.ts";
import type { Prepared } from "../records/commit-once.ts";
import type { CheckedUrl } from "./check-url.ts";
import { checkCredentials, checkTogether, givenDetail, sealCredentials } from "./credentials.ts";
import { createRotation, rotatedSecret, type AuditOf, type WithSecret } from "./rotate.ts";
import { checkEvents, checkHeaders, checkTransform, fieldsOf, patched, sealHeaders } from "./update.ts";
import type { SubscriptionFields, SubscriptionPatch } from "./update.ts";

export { createSubscriptionCache } from "../records/subscription-cache.ts";
export type { SubscriptionCache } from "../records/subscription-cache.ts";
export type { SubscriptionFields } from "./update.ts";

export interface SubscriptionsDeps {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly metrics?: Pick<Metrics, "count">;
  readonly keys: Keys;
  readonly registerUrl: (url: string) => Promise<CheckedUrl>;
  /** Returns true when the transport of a URL uses credentials of a subscription. @default every one does */
  readonly takesCredentials?: (url: string) => boolean;
  /** The retry policy of the relay: a subscription's own is filled from it. */
  readonly retry: RetryOptions;
  readonly perKey: number;
  /** Aborts the attempts under way for a subscription, on every node; resolves when they have ended. */
  readonly abort: (subscriptionId: string) => Promise<void>;
  /** Resolves when a subscription's requests in flight, on every node, have ended, within a bound. */
  readonly drain?: (subscriptionId: string) => Promise<void>;
  /** Resolves when the other nodes know of the commit, so that nothing begins there by the old state. Never rejects. */
  readonly known?: (subscriptionId: string) => Promise<void>;
  /** Called when a subscription becomes active again: endpoint health and circuit breaker start from zero. */
  readonly revive?: (subscriptionId: string) => Promise<void>;
  /** Ends in storage what waits of a subscription that no longer is active. */
  readonly endings?: Pick<Endings, "begin">;
  readonly events?: () => readonly string[] | undefined;
  readonly transforms?: () => readonly string[];
  /** Names of headers that a subscription cannot have, because the config gives them to headers of the relay. */
  readonly repeated?: RepeatedHeaders;
  /** Prepares a notice to store with a change; `undefined` when nobody is to hear of it. @throws StorageError */
  readonly notice?: (notice: Notice) => Promise<Prepared | undefined>;
}

/** All methods throw Problem for errors of the caller, and StorageError when nothing can be stored. */
export interface Subscriptions {
  /** @param fields its `secret` has been judged */
  create(keyId: string, fields: SubscriptionFields, actor: Actor): Promise<WithSecret>;
  update(keyId: string, id: string, patch: SubscriptionPatch, actor: Actor): Promise<Subscription>;
  /** Resolves when nothing of it will be sent any more. A repeat finishes a deletion that was interrupted. */
  remove(keyId: string, id: string, actor: Actor): Promise<void>;
  /** @param overlapMs how long the old secret still signs together with the new one; 0 ends it now */
  rotate(keyId: string, id: string, overlapMs: number, actor: Actor): Promise<WithSecret>;
  /**
   * Disables a subscription on the relay's own behalf, and reports it in an operational event of the same commit. Does
   * nothing when the subscription is not active or does not exist.
   * @param because the event whose delivery led to it: operational events cause none themselves
   */
  disable(keyId: string, id: string, reason: DisabledReason, because?: string): Promise<void>;
}

export function createSubscriptions(deps: SubscriptionsDeps): Subscriptions {
  const { storage, clock, keys } = deps;
  const { load, revise } = createRevising(storage);
  const audit: AuditOf = (keyId, actor, line) => auditChange(keyId, actor, clock, line);

  return {
    async create(keyId, given, actor) {
      checkEvents(given.events, deps.events?.());
      checkTransform(given.transform, deps.transforms);
      checkHeaders(given.headers, deps.repeated);
      const fields = await checked(deps, given);
      const url = await allowed(deps, fields.url);
      const id = randomId("sub");
      const secret = rotatedSecret({ keys, clock }, { keyId, id, url }, 1, fields.secret);
      const made = await transact(storage, async (tx) => {
        const live = await countLive(storage, keyId, await tx.text(COUNT.key({ keyId })));
        if (live >= deps.perKey) {
          const detail = `A key may have at most ${deps.perKey} subscriptions. Delete one first.`;
          throw new Problem("SUBSCRIPTION_LIMIT_REACHED", detail);
        }
        const subscription = newSubscription(deps, { keyId, id }, { ...fields, url }, secret.stored);
        checkTogether(subscription, deps.takesCredentials);
        await checkRoomForOrdered(storage, subscription);
        tx.put(COUNT, { keyId }, String(live + 1));
        const known = await tx.text(API_KEY.key({ keyId }));
        if (known === undefined) tx.put(API_KEY, { keyId }, String(subscription.createdAt));
        tx.add(
          SUBSCRIPTION.put({ keyId, id }, subscription, null),
          audit(keyId, actor, { action: "subscription.created", target: id, ...givenDetail(fields) }),
        );
        return { subscription, secret: secret.plain };
      });
      await deps.known?.(id);
      return made;
    },

    async update(keyId, id, given, actor) {
      if (given.events !== undefined) checkEvents(given.events, deps.events?.());
      checkHeaders(given.headers, deps.repeated);
      const patch = await checked(deps, given);
      const now = await load(keyId, id);
      if (given.transform !== now.transform) checkTransform(given.transform, deps.transforms);
      // Before the change is stored: if it fails here, the whole change is repeated, since the subscription is still
      // disabled.
      const revived = now.status === "disabled" && patch.status === "active";
      if (revived) await revive(deps, keyId, id);
      const url = patch.url === undefined ? undefined : await allowed(deps, patch.url);
      if (now.ordered !== true) await checkRoomForOrdered(storage, { keyId, id, ordered: patch.ordered });
      let event: Prepared | undefined;
      const { was, next } = await revise(keyId, id, async (now) => {
        const next = patched(deps, now, { ...patch, url }, clock.now());
        checkTogether(next, deps.takesCredentials);
        const detail = Object.keys(patch).join(" ");
        const ended = now.status === "active" && next.status === "disabled";
        event = ended ? await deps.notice?.(subscriptionDisabled(next, "by_hand")) : undefined;
        const line = audit(keyId, actor, { action: "subscription.updated", target: id, detail });
        return { next, more: [line, ...(ended ? [endingMark(next)] : []), ...(event?.changes ?? [])] };
      });
      event?.committed();
      if (next.generation > was.generation) deps.endings?.begin(keyId, id);
      if (!revived && was.status === "disabled" && next.status === "active") await revive(deps, keyId, id);
      await deps.known?.(id);
      if (holdsUp(was) && !holdsUp(next)) await skipAllHeld(storage, next);
      return next;
    },

    remove: createDeletion({ storage, clock, abort: deps.abort, endings: deps.endings, audit }),
    rotate: createRotation({ keys, clock, revise, drain: deps.drain, audit }),
    disable: (keyId, id, reason, because) => disable({ ...deps, revise, audit }, { keyId, id }, reason, because),
  };
}

/** @returns its normal form @throws Problem URL_NOT_ALLOWED */
async function allowed({ registerUrl }: SubscriptionsDeps, url: string, path = "url"): Promise<string> {
  const verdict = await registerUrl(url);
  if (verdict.ok) return verdict.href;
  const opened = `To let the relay call it, its operator sets guard: { allow: ["${verdict.allow}"] } in relay.config.ts.`;
  const detail = `Give a URL that the relay may call.${verdict.allow === undefined ? "" : ` ${opened}`}`;
  const errors = [{ path, message: verdict.message, reason: verdict.reason }];
  throw new Problem("URL_NOT_ALLOWED", detail, { errors });
}

/** Returns the fields with a token URL that the relay may call, after a check of the credentials. */
async function checked<Fields extends SubscriptionFields | SubscriptionPatch>(
  deps: SubscriptionsDeps,
  fields: Fields,
): Promise<Fields> {
  checkCredentials(fields);
  const { oauth2 } = fields;
  if (oauth2 === undefined || oauth2 === null) return fields;
  return { ...fields, oauth2: { ...oauth2, tokenUrl: await allowed(deps, oauth2.tokenUrl, "oauth2.tokenUrl") } };
}

function newSubscription(
  { keys, clock, retry }: SubscriptionsDeps,
  { keyId, id }: Pick<Subscription, "keyId" | "id">,
  fields: SubscriptionFields,
  secret: SealedSecret,
): Subscription {
  const { url } = fields;
  const at = clock.now();
  return {
    ...{ id, keyId, ...storedUrl(keys, { keyId, id }, url), events: [...new Set(fields.events)] },
    status: fields.status ?? "active",
    ...{ createdAt: at, updatedAt: at, generation: 1, secrets: [secret] },
    ...fieldsOf(fields, retry),
    ...sealHeaders(keys, { keyId, id, url }, fields.headers ?? undefined, undefined),
    ...sealCredentials(keys, { keyId, id, url }, fields, {}),
  };
}

/** @throws Problem SUBSCRIPTION_LIMIT_REACHED when the key has as many other ordered subscriptions as it may */
async function checkRoomForOrdered(
  storage: Pick<Storage, "range">,
  { keyId, id, ordered }: Pick<Subscription, "keyId" | "id"> & { readonly ordered?: boolean | null },
): Promise<void> {
  if (ordered !== true) return;
  const others = (await liveOf(storage, keyId)).filter((sub) => sub.ordered === true && sub.id !== id);
  if (others.length < MOST_ORDERED) return;
  const detail = `A key may have at most ${MOST_ORDERED} ordered subscriptions. Delete one, or set ordered to false on one, first.`;
  throw new Problem("SUBSCRIPTION_LIMIT_REACHED", detail);
}

/** Forgets a receiver's pause, breaker and failures, and what a crash left held. */
async function revive(deps: SubscriptionsDeps, keyId: string, id: string): Promise<void> {
  await skipAllHeld(deps.storage, { keyId, id });
  await deps.storage.queue.pause(id, 0);
  await deps.revive?.(id);
}

async function disable(
  { clock, notice, metrics, endings, revise, audit }: SubscriptionsDeps & Pick<Revising, "revise"> & { audit: AuditOf },
  { keyId, id }: Pick<Subscription, "keyId" | "id">,
  reason: DisabledReason,
  because = "",
): Promise<void> {
  const line = { action: "subscription.disabled", target: id, detail: reason } as const;
  const quiet = because.startsWith(OPERATIONAL);
  let event: Prepared | undefined;
  const revised = await revise(keyId, id, async (now) => {
    if (now.status === "disabled") return undefined;
    event = quiet ? undefined : await notice?.(subscriptionDisabled(now, reason));
    const generation = now.generation + 1;
    return {
      next: { ...now, status: "disabled", disabledReason: reason, updatedAt: clock.now(), generation },
      more: [audit(keyId, RELAY, line), endingMark({ keyId, id, generation }), ...(event?.changes ?? [])],
    };
  }).catch((error: unknown) => {
    if (error instanceof Problem && error.code === "NOT_FOUND") return undefined;
    throw error;
  });
  if (revised === undefined || revised.was === revised.next) return;
  metrics?.count("subscriptions_disabled", { reason });
  event?.committed();
  endings?.begin(keyId, id);
}
