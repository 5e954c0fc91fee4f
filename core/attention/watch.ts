/**
 * Tells of what needs attention and has no notice of its own, and when that is over, beside the other notices. It looks only
 * at keys that somebody listens to, for a part of the time, and goes on where it ended. What it tells is noted in the commit.
 */
import { isoTime } from "../lib/time.ts";
import { ConflictError } from "../model/errors.ts";
import { unlessDamaged } from "../model/kind.ts";
import { OPERATOR_KEY } from "../model/names.ts";
import { attentionNotice, type Notice } from "../model/notice.ts";
import { API_KEY, ATTENTION, WHOLE_RELAY } from "../model/schema.ts";
import { wants } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Change, Entry, Storage } from "../ports/storage.ts";
import { unlessUnreadable } from "../records/damage.ts";
import { everyEntry } from "../records/every-entry.ts";
import type { SubscriptionCache } from "../records/subscription-cache.ts";
import { tryCommit } from "../records/transaction.ts";
import { type AttentionReader, isOfNode, type Noted, type Parts } from "./attention.ts";

/** What lasts no longer, as at a start, needs nobody, ms. */
const MOMENT_MS = 30_000;
/** How long one look works on keys, ms, and the rows of the whole relay that it reads. */
const WORK_MS = 300;
const MOST_ROWS = 5_000;
/** These have notices of their own. */
const TOLD_ELSEWHERE: readonly string[] = ["down", "disabled", "failing", "secret_ending"];

interface WatchDeps {
  readonly storage: Pick<Storage, "range" | "commit">;
  readonly subscriptionCache: SubscriptionCache;
  readonly attention: Pick<AttentionReader, "ofKey" | "ofParts">;
  readonly notices: { commitWith(changes: readonly Change[], notice: Notice): Promise<void> };
  /** Never rejects. */
  readonly readiness: () => Promise<Parts>;
  readonly clock: Pick<Clock, "now" | "monotonic">;
}

export class AttentionWatch {
  readonly #deps: WatchDeps;
  /** The key after which the next look goes on. */
  #lookedTo: string | undefined;

  constructor(deps: WatchDeps) {
    this.#deps = deps;
  }

  /** Checks once. @throws StorageError */
  readonly look = async (signal: AbortSignal): Promise<void> => {
    const { storage, attention, readiness, clock } = this.#deps;
    const rows: Entry[] = [];
    for await (const row of everyEntry(storage, ATTENTION.start)) if (rows.push(row) >= MOST_ROWS) break;
    const noted = Map.groupBy(rows, ({ key }) => ATTENTION.id(key).keyId);
    const operator = await this.#listens(OPERATOR_KEY);
    const ofNode = (noted.get(WHOLE_RELAY) ?? []).filter(({ key }) => isOfNode(ATTENTION.id(key).about));
    await this.#judge(await attention.ofParts(await readiness()), ofNode, operator);
    const until = clock.monotonic() + WORK_MS;
    const walk = this.#lookedTo === undefined ? {} : { after: this.#lookedTo };
    for await (const { key } of everyEntry(storage, API_KEY.start, walk)) {
      signal.throwIfAborted();
      if (clock.monotonic() >= until) return;
      this.#lookedTo = key;
      const { keyId } = API_KEY.id(key);
      const own = noted.get(keyId) ?? [];
      const heard = keyId !== OPERATOR_KEY && (operator || (await this.#listens(keyId)));
      if (!heard && own.length === 0) continue;
      await unlessUnreadable(attention.ofKey(keyId).then((items) => this.#judge(items, own, heard)));
    }
    this.#lookedTo = undefined;
  };

  async #listens(keyId: string): Promise<boolean> {
    const all = await this.#deps.subscriptionCache.of(keyId);
    return all.some((sub) => ["needed", "recovered"].some((is) => wants(sub, `relay:attention.${is}`)));
  }

  /** Tells of what is new and of what is over. @param heard somebody listens */
  async #judge(items: readonly Noted[], rows: readonly Entry[], heard: boolean): Promise<void> {
    const { clock } = this.#deps;
    for (const item of items) {
      const { state, reason, help, since = 0, acknowledged } = item;
      const known = rows.find(({ key }) => key === ATTENTION.key(item))?.value;
      const row = unlessDamaged(ATTENTION.read(known)) ?? { marks: [] };
      const isNew = row.told !== true && acknowledged === undefined && clock.now() - since >= MOMENT_MS;
      if (!heard || !isNew || TOLD_ELSEWHERE.includes(state)) continue;
      const said = { state, reason, help, since: item.since && isoTime(since) };
      await this.#tell("needed", item, said, ATTENTION.put(item, { ...row, told: true }, known ?? null));
    }
    for (const { key, value } of rows) {
      if (items.some((item) => key === ATTENTION.key(item))) continue;
      const place = ATTENTION.id(key);
      const gone: Change = { op: "delete", key, if: value };
      const told = unlessDamaged(ATTENTION.read(value))?.told === true;
      if (told) await this.#tell("recovered", place, { state: place.state }, gone);
      else await tryCommit(this.#deps.storage, [gone]);
    }
  }

  /** Commits both. Another node that was first has told of it. */
  async #tell(
    is: "needed" | "recovered",
    { keyId, about }: { readonly keyId: string; readonly about: string },
    said: { readonly state: string },
    change: Change,
  ): Promise<void> {
    const { notices, subscriptionCache } = this.#deps;
    const sub = keyId === WHOLE_RELAY ? about : await subscriptionCache.get(keyId, about);
    if (sub === undefined) return;
    await notices.commitWith([change], attentionNotice(is, said, sub)).catch((error: unknown) => {
      if (!(error instanceof ConflictError)) throw error;
    });
  }
}
