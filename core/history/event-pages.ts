/** Reads the events of a key, newest first, within the bounds of one answer. */
import { EVENT, ordinalOf } from "../model/schema.ts";
import type { Storage } from "../ports/storage.ts";
import { readEvent, type ReadEvent } from "../records/damage.ts";
import { everyPage } from "../records/every-entry.ts";

/** Most rows and characters that one answer reads; the rest belongs to the next one. */
export const ROWS_READ = 2_000;
export const CHARACTERS_READ = 16_000_000;
/** Rows come with their bodies, which may be large, so a page is small. */
const PAGE = 100;

export interface EventPage {
  readonly events: readonly ReadEvent[];
  /** Where the next answer begins when this page is the last of this one; absent when there are no more. */
  readonly next?: string;
}

/** @param from `after`: a key behind which it begins; `since`: epoch ms of the oldest acceptance */
export async function* eventPages(
  storage: Pick<Storage, "range">,
  keyId: string,
  { after, since = 0 }: { readonly after: string | undefined; readonly since: number | undefined },
): AsyncGenerator<EventPage> {
  let [rows, characters] = [0, 0];
  for await (const page of everyPage(storage, EVENT.under({ keyId }), { after, limit: PAGE, reverse: true })) {
    const read = page.map(({ key, value }) => readEvent(keyId, ordinalOf(key), value));
    const events = read.filter(({ event }) => event.acceptedAt >= since);
    rows += page.length;
    for (const { value } of page) characters += value.length;
    const ended = events.length < PAGE;
    yield { events, ...(!ended && { next: events.at(-1)?.event.ordinal }) };
    if (ended || rows >= ROWS_READ || characters >= CHARACTERS_READ) return;
  }
}
