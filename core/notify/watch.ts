/**
 * Finds what no single event shows: overlaps of secrets that are about to end, and backlogs above their bounds. Reports
 * also what was held back and whose hour is over. It runs beside the path, every 30 s.
 */
import { every } from "../lib/every.ts";
import { API_KEY, OVERLAP } from "../model/schema.ts";
import { OPERATOR_KEY } from "../model/names.ts";
import { pendingHigh, secretExpiring } from "../model/notice.ts";
import { ConflictError } from "../model/errors.ts";
import { isLive } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Plan } from "../ports/plan.ts";
import type { Log } from "../ports/plugin.ts";
import type { Entry, Storage } from "../ports/storage.ts";
import { everyEntry } from "../records/every-entry.ts";
import { unlessUnreadable } from "../records/damage.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { tryCommit } from "../records/transaction.ts";
import type { Notices } from "./notices.ts";

const LOOK_MS = 30_000;
const PAGE = 100;
/** How long the backlogs of keys are counted in one look, ms. The next one goes on where it ended. */
const COUNT_MS = 1_000;

interface NoticeWatchDeps {
  readonly storage: Pick<Storage, "range" | "commit"> & { readonly queue: Pick<Storage["queue"], "depth" | "pending"> };
  readonly subscriptionCache: SubscriptionCache;
  readonly notices: Pick<Notices, "tell" | "commitWith" | "flush" | "settled">;
  /** Its `notify` has the bounds of backlogs; 0: none is reported. */
  readonly plan: { readonly notify: Pick<Plan["notify"], "pending" | "pendingPerKey"> };
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
}

export class NoticeWatch {
  readonly #deps: NoticeWatchDeps;
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;
  #also: (signal: AbortSignal) => Promise<void> = async () => undefined;
  /** The key after which the count goes on. */
  #countedTo: string | undefined;

  constructor(deps: NoticeWatchDeps) {
    this.#deps = deps;
  }

  /** @param also another look, of a part that this room does not see */
  start(also = this.#also): void {
    this.#also = also;
    this.#loop ??= this.#round().then(() => every(this.#deps.clock, LOOK_MS, this.#round, this.#stopping.signal));
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error("stopping"));
    await this.#loop;
    await this.#deps.notices.settled();
  }

  /** Checks once. @throws StorageError */
  async look(signal: AbortSignal): Promise<void> {
    await this.#overlaps(signal);
    await this.#backlog(signal);
    await this.#also(signal);
    await this.#deps.notices.flush();
  }

  /** Never rejects. */
  readonly #round = (): Promise<void> =>
    this.look(this.#stopping.signal).catch((error: unknown) => {
      if (!this.#stopping.signal.aborted) this.#deps.log.warn("a look for notices failed", { error: String(error) });
    });

  /** Does the work on one row. One that needs a damaged subscription fails alone, so that the others get their turn. */
  async #passingOver(key: string, work: Promise<void>): Promise<void> {
    await unlessUnreadable(work, (error) => {
      this.#deps.log.warn("a look for notices passed over what it cannot read", { key, error: String(error) });
    });
  }

  async #overlaps(signal: AbortSignal): Promise<void> {
    const { storage, clock } = this.#deps;
    for await (const row of everyEntry(storage, OVERLAP.start)) {
      signal.throwIfAborted();
      if (OVERLAP.id(row.key).at > clock.now()) return;
      await this.#passingOver(row.key, this.#overlap(row));
    }
  }

  /** Reports one, and deletes its row in the same commit: a crash repeats it, and another node does not. */
  async #overlap({ key, value }: Entry): Promise<void> {
    const { storage, subscriptionCache, notices, clock } = this.#deps;
    const { keyId, subscriptionId } = OVERLAP.id(key);
    const sub = await subscriptionCache.get(keyId, subscriptionId);
    const endsAt = Number(value);
    const done = { op: "delete", key, if: value } as const;
    const holds = isLive(sub) && endsAt > clock.now() && sub.secrets.some(({ expiresAt }) => expiresAt === endsAt);
    if (!holds) return void (await tryCommit(storage, [done]));
    await notices.commitWith([done], secretExpiring(sub, endsAt)).catch((error: unknown) => {
      if (!(error instanceof ConflictError)) throw error;
    });
  }

  async #backlog(signal: AbortSignal): Promise<void> {
    const { storage, notices, plan } = this.#deps;
    const { pending, pendingPerKey } = plan.notify;
    if (pending === 0 && pendingPerKey === 0) return;
    const { waiting, leased } = await storage.queue.depth();
    const all = waiting + leased;
    if (pending > 0 && all > pending) notices.tell(pendingHigh(undefined, all, pending));
    // No key has more than all of them together.
    if (pendingPerKey > 0 && all > pendingPerKey) await this.#backlogOfKeys(pendingPerKey, signal);
  }

  async #backlogOfKeys(bound: number, signal: AbortSignal): Promise<void> {
    const { storage, clock } = this.#deps;
    const until = clock.monotonic() + COUNT_MS;
    do {
      const page = await storage.range(API_KEY.start, { after: this.#countedTo, limit: PAGE });
      for (const { key } of page) {
        signal.throwIfAborted();
        this.#countedTo = key;
        const { keyId } = API_KEY.id(key);
        if (keyId !== OPERATOR_KEY) await this.#passingOver(key, this.#backlogOfKey(keyId, bound));
      }
      if (page.length < PAGE) {
        this.#countedTo = undefined;
        return;
      }
    } while (clock.monotonic() < until);
  }

  async #backlogOfKey(keyId: string, bound: number): Promise<void> {
    const { storage, subscriptionCache, notices } = this.#deps;
    const subscriptions = await subscriptionCache.of(keyId);
    const pending = await storage.queue.pending(subscriptions.map(({ id }) => id));
    if (pending > bound) notices.tell(pendingHigh(keyId, pending, bound));
  }
}
