/**
 * Finds the events that have a failed or a pending delivery, newest first, in the indexes of those deliveries. What was
 * delivered has no index: each event would pay for one.
 */
import { ordinalTime } from "../model/ids.ts";
import { DUE, ENDING, EVENT, FAILED, fanoutQueue, ordinalOf, SUBSCRIPTION, WAITING } from "../model/schema.ts";
import type { Storage } from "../ports/storage.ts";
import { readEvent, readTexts } from "../records/damage.ts";
import { everyPage } from "../records/every-entry.ts";
import { CHARACTERS_READ, type EventPage, eventPages, ROWS_READ } from "./event-pages.ts";

type Reads = Pick<Storage, "getItem" | "getMany" | "range">;

/** Subscriptions that one answer asks, and lines of waiting ones that it sorts: beyond them it looks at every event. */
const MOST_SUBSCRIPTIONS = 1_000;
const MOST_WAITING = 20_000;
/** Lines of failed ones that are read at once, of all subscriptions together. */
const LINES = 2_000;
/** Events come with their bodies, which may be large. */
const EVENTS = 50;

interface Place {
  /** The ordinal before which it begins. @default with the newest */
  readonly before?: string | undefined;
  /** Epoch ms of the oldest acceptance. */
  readonly since?: number | undefined;
}

/**
 * Like `eventPages`, of events that have such a delivery, and sometimes of others: a line may be out of date.
 * @param only the deliveries of this subscription. @default those of all of the key, of deleted ones too
 */
export async function* indexedPages(
  storage: Reads,
  keyId: string,
  status: "failed" | "pending",
  { before, since = 0, only }: Place & { readonly only?: string | undefined },
): AsyncGenerator<EventPage> {
  const found = await ordinalsOf(storage, keyId, status, only, before);
  if (found === undefined) {
    const after = before === undefined ? undefined : EVENT.key({ keyId, ordinal: before });
    return yield* eventPages(storage, keyId, { after, since });
  }
  let [rows, characters] = [0, 0];
  for await (const all of found) {
    for (let i = 0; i < all.length; i += EVENTS) {
      const some = all.slice(i, i + EVENTS);
      const ordinals = some.filter((ordinal) => ordinalTime(ordinal) >= since);
      const keys = ordinals.map((ordinal) => EVENT.key({ keyId, ordinal }));
      const texts = keys.length === 0 ? [] : await readTexts(storage, keys);
      const there = ordinals.flatMap((one, n) => (texts[n] === undefined ? [] : [readEvent(keyId, one, texts[n])]));
      const ended = ordinals.length < some.length;
      rows += texts.length;
      for (const text of texts) characters += text?.length ?? 0;
      yield { events: there, ...(!ended && { next: some.at(-1) }) };
      if (ended || rows >= ROWS_READ || characters >= CHARACTERS_READ) return;
    }
  }
  yield { events: [] };
}

/** Returns the ordinals of the events, newest first, in parts; `undefined`: there are too many lines to sort. */
async function ordinalsOf(
  storage: Reads,
  keyId: string,
  status: "failed" | "pending",
  only: string | undefined,
  before: string | undefined,
): Promise<AsyncIterable<readonly string[]> | undefined> {
  const most = { limit: MOST_SUBSCRIPTIONS + 1 };
  const rows = only === undefined ? await storage.range(SUBSCRIPTION.under({ keyId }), most) : [];
  if (rows.length > MOST_SUBSCRIPTIONS) return undefined;
  const ids = only === undefined ? rows.map(({ key }) => SUBSCRIPTION.id(key).id) : [only];
  // What waits of a subscription that was disabled reads as failed before its line says so.
  const ending = await storage.range(ENDING.under({ keyId }), most);
  const ended = new Set(ending.map(({ key }) => ENDING.id(key).subscriptionId));
  const waiting: string[] = [];
  const queues = [fanoutQueue(keyId), ...(status === "pending" ? ids : ids.filter((one) => ended.has(one)))];
  const lists = queues.flatMap((subscriptionId) =>
    [DUE, WAITING].map(async (kind) => {
      for await (const page of everyPage(storage, kind.under({ subscriptionId })))
        if (waiting.push(...page.map(({ key }) => ordinalOf(key))) > MOST_WAITING) return;
    }),
  );
  await Promise.all(lists);
  if (waiting.length > MOST_WAITING) return undefined;
  return merged(storage, status === "failed" ? ids : [], waiting, before);
}

/** Reads failed lines of all of them, each time on of those that have been read the least far, down to where all have been read. */
async function* merged(
  storage: Reads,
  ids: readonly string[],
  waiting: readonly string[],
  before: string | undefined,
): AsyncGenerator<readonly string[]> {
  const known = new Set(waiting.filter((ordinal) => before === undefined || ordinal < before));
  /** How far the lines of each have been read; those of which none are left are not in it. */
  const readTo = new Map(ids.map((id) => [id, before]));
  for (let down = before; down !== "";) {
    const least = [...readTo.keys()].filter((id) => readTo.get(id) === down);
    const limit = Math.max(5, Math.floor(LINES / Math.max(20, least.length)));
    const lists = least.map(async (subscriptionId) => {
      const after = down && FAILED.key({ subscriptionId, ordinal: down });
      const walk = { reverse: true, limit, ...(after !== undefined && { after }) };
      const ordinals = (await storage.range(FAILED.under({ subscriptionId }), walk)).map(({ key }) => ordinalOf(key));
      for (const ordinal of ordinals) known.add(ordinal);
      if (ordinals.length < limit) readTo.delete(subscriptionId);
      else readTo.set(subscriptionId, ordinals.at(-1));
    });
    await Promise.all(lists);
    const to = [...readTo.values()].reduce<string>((most, one = "") => (one > most ? one : most), "");
    const all = [...known].filter((ordinal) => ordinal >= to);
    for (const ordinal of all) known.delete(ordinal);
    yield all.toSorted().toReversed();
    down = to;
  }
}
