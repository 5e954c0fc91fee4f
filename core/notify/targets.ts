/**
 * Keeps the operator's subscriptions as `notify.to` of the config says: each target is one, so that what it is sent is
 * signed, stored and tried again like any delivery. Those that people make on the operator's key are left alone.
 */
import type { Actor } from "../model/audit.ts";
import { OPERATOR_KEY } from "../model/names.ts";
import { maskedUrl } from "../model/credentials.ts";
import { Problem } from "../model/problem.ts";
import type { Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { NotifyTarget, Plan } from "../ports/plan.ts";
import type { Log } from "../ports/plugin.ts";
import type { Storage } from "../ports/storage.ts";
import { RELAY } from "../records/audit-trail.ts";
import { liveOf } from "../records/subscription-cache.ts";

/** Marks the subscriptions that are the config's. */
const FROM_CONFIG = "notify.to of the relay's config";
/** How soon it is tried again, when a name was not found or the storage did not answer, ms. */
const AGAIN_MS = 30_000;

/** The changes to subscriptions that it makes. @throws Problem, StorageError */
interface OperatorSubscriptions {
  create(keyId: string, fields: NotifyTarget & { readonly description: string }, actor: Actor): Promise<unknown>;
  update(
    keyId: string,
    id: string,
    patch: Pick<Subscription, "events" | "status"> & { readonly transform: string | null; readonly url?: string },
    actor: Actor,
  ): Promise<unknown>;
  remove(keyId: string, id: string, actor: Actor): Promise<void>;
}

interface NotifyTargetsDeps {
  readonly plan: { readonly notify: Pick<Plan["notify"], "to"> };
  readonly subscriptions: OperatorSubscriptions;
  readonly storage: Pick<Storage, "range" | "getItem">;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
}

export class NotifyTargets {
  readonly #deps: NotifyTargetsDeps;
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(deps: NotifyTargetsDeps) {
    this.#deps = deps;
  }

  /** Begins, and tries again until all targets are as wanted. */
  start(): void {
    this.#loop ??= this.#run().catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error("stopping"));
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#deps;
    for (;;) {
      try {
        return await this.#round();
      } catch (error) {
        log.warn("a target of notify.to waits", { error: wordsOf(error) });
      }
      await clock.sleep(clock.now() + AGAIN_MS, this.#stopping.signal);
    }
  }

  /** @throws the first error; what was possible is done */
  async #round(): Promise<void> {
    const targets = this.#deps.plan.notify.to;
    const before = await this.#kept();
    const failures: unknown[] = [];
    const attempt = (work: Promise<void>): Promise<void> => work.catch((error: unknown) => void failures.push(error));
    for (const target of targets) {
      const found = before.find((sub) => isAt(sub, target));
      await attempt(this.#keep(target, found));
    }
    // Two nodes that start at once may both have made one: both find both now, and leave the older.
    const after = await this.#kept();
    const first = targets.map((target) => after.find((sub) => isAt(sub, target))?.id);
    for (const sub of after) if (!first.includes(sub.id)) await attempt(this.#remove(sub));
    if (failures.length > 0) throw failures[0];
  }

  /** Returns those of the config, oldest first. */
  async #kept(): Promise<readonly Subscription[]> {
    const live = await liveOf(this.#deps.storage, OPERATOR_KEY);
    return live
      .filter(({ description }) => description === FROM_CONFIG)
      .toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
  }

  async #keep(target: NotifyTarget, found: Subscription | undefined): Promise<void> {
    const { subscriptions } = this.#deps;
    const { url, events, transform } = target;
    if (found === undefined) {
      await subscriptions.create(OPERATOR_KEY, { url, events, transform, description: FROM_CONFIG }, RELAY);
      return;
    }
    // Version 0.1.0 stored it in clear.
    const sealed = found.sealedUrl !== undefined;
    const same = sealed && found.transform === transform && found.events.join(" ") === [...new Set(events)].join(" ");
    // One that the relay has disabled gets another chance at each start; what a person has disabled stays so.
    const revived = found.disabledReason !== undefined;
    if (same && !revived) return;
    const status = revived ? ("active" as const) : found.status;
    const patch = { events, transform: transform ?? null, status, ...(!sealed && { url }) };
    await subscriptions.update(OPERATOR_KEY, found.id, patch, RELAY);
  }

  async #remove({ id }: Subscription): Promise<void> {
    await this.#deps.subscriptions.remove(OPERATOR_KEY, id, RELAY).catch((error: unknown) => {
      // Another node was first.
      if (!(error instanceof Problem) || error.code !== "NOT_FOUND") throw error;
    });
  }
}

const isAt = ({ url }: Subscription, target: NotifyTarget): boolean =>
  [target.url, URL.parse(target.url)?.href ?? ""].some((one) => url === one || url === maskedUrl(one));

const wordsOf = (error: unknown): string => {
  if (!(error instanceof Problem)) return String(error);
  const fields = error.extras.errors?.map(({ path, message }) => `${path} ${message}`) ?? [];
  return [`${error.code}:`, ...fields, error.detail].join(" ");
};
