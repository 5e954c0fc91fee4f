/** Recognises repeats: ids that the publisher chose, and whole requests under an Idempotency-Key. */
import { bodyData, type RelayEvent } from "../model/event.ts";
import { eventOrdinal, ordinalTime } from "../model/ids.ts";
import { DAMAGED } from "../model/kind.ts";
import { EVENT, EVENT_ID, EXPIRY, IDEMPOTENCY } from "../model/schema.ts";
import { Problem, type FieldError } from "../model/problem.ts";
import type { Accepted, AcceptRequest } from "../ports/source.ts";
import type { Change, Storage } from "../ports/storage.ts";
import { dropErasedExpiry, ERASED_ID_MS, erasedAt } from "../records/erased-id.ts";
import type { ParsedEvent } from "./parse-events.ts";

/** How long repeats are recognised, at least. */
const DAY_MS = 86_400_000;

/** True for the same event once more: same type, headers and data, and same time if one is given. */
const isRepeat = (draft: ParsedEvent, of: Pick<ParsedEvent, "type" | "createdAt" | "headers">, data: string): boolean =>
  draft.type === of.type &&
  (draft.createdAt === undefined || draft.createdAt === of.createdAt) &&
  draft.data === data &&
  (draft.headers === of.headers || JSON.stringify(draft.headers) === JSON.stringify(of.headers));

/** @throws Problem IDEMPOTENCY_MISMATCH naming every id that belongs to another event */
function refuse(errors: readonly FieldError[]): void {
  if (errors.length === 0) return;
  throw new Problem("IDEMPOTENCY_MISMATCH", "These ids belong to other events. Give a new event a new id.", { errors });
}

/** @param of says what the id was used for */
const used = (draft: ParsedEvent, of: string): FieldError => ({
  path: draft.path === "" ? "id" : `${draft.path}.id`,
  message: `was used for an event ${of}`,
});
const mismatch = (draft: ParsedEvent): FieldError => used(draft, "with another type, createdAt, headers or data");
const DAMAGED_RECORD = "whose stored record is damaged";
const ERASED = "that has been erased";

const NO_REPEATS: ReadonlyMap<ParsedEvent, ParsedEvent> = new Map();

/**
 * Finds events that occur twice in their own batch: maps the later one to the first.
 * @throws Problem IDEMPOTENCY_MISMATCH
 */
export function repeatedIdsWithin(drafts: readonly ParsedEvent[]): ReadonlyMap<ParsedEvent, ParsedEvent> {
  if (drafts.length < 2) return NO_REPEATS;
  const repeats = new Map<ParsedEvent, ParsedEvent>();
  const firsts = new Map<string, ParsedEvent>();
  const errors: FieldError[] = [];
  for (const draft of drafts) {
    if (draft.id === undefined) continue;
    const name = `${draft.keyId} ${draft.id}`;
    const first = firsts.get(name);
    if (first === undefined) firsts.set(name, draft);
    else if (isRepeat(draft, first, first.data)) repeats.set(draft, first);
    else errors.push(mismatch(draft));
  }
  refuse(errors);
  return repeats;
}

/** Rows of the storage under the ids of a batch. */
interface StoredAnswer {
  readonly events: ReadonlyMap<ParsedEvent, RelayEvent>;
  /** Ids whose event was removed and is older than a day, or was erased a day ago, with their row: they are free again. */
  readonly free: ReadonlyMap<ParsedEvent, string>;
}

export const NOTHING_STORED: StoredAnswer = { events: new Map(), free: new Map() };

/** Reserves an id for the event, or fails the commit. One that looks like ours must not be that of our event. */
export function claimId(draft: ParsedEvent, ordinal: string, free: StoredAnswer["free"]): readonly Change[] {
  if (draft.id === undefined) return [];
  const key = EVENT_ID.key({ keyId: draft.keyId, id: draft.id });
  const was = free.get(draft);
  const changes: Change[] = [{ op: "put", key, value: ordinal, if: was ?? null }, ...dropErasedExpiry(key, was)];
  const look = eventOrdinal(draft.id);
  if (look !== undefined)
    changes.push({ op: "check", key: EVENT.key({ keyId: draft.keyId, ordinal: look }), if: null });
  return changes;
}

/**
 * Reads what the storage has under the publishers' ids, after a commit was refused.
 * @throws Problem IDEMPOTENCY_MISMATCH when an id belongs to another event
 */
export async function readStored(
  storage: Pick<Storage, "getMany">,
  drafts: readonly ParsedEvent[],
  now: number,
): Promise<StoredAnswer> {
  const own = drafts.filter((draft) => draft.id !== undefined);
  const lines = await storage.getMany(own.map((draft) => EVENT_ID.key({ keyId: draft.keyId, id: draft.id as string })));
  // An id that looks like ours and is found nowhere else may be the id of an event that the relay named.
  const erased = lines.map(erasedAt);
  const ordinals = own.map((draft, i) =>
    erased[i] === undefined ? (lines[i] ?? eventOrdinal(draft.id as string)) : undefined,
  );
  const keys = own.map(({ keyId }, i) =>
    ordinals[i] === undefined ? undefined : EVENT.key({ keyId, ordinal: ordinals[i] }),
  );
  const known = keys.filter((key) => key !== undefined);
  const rows = await storage.getMany(known);
  const found = new Map(known.map((key, i) => [key, rows[i]]));
  const events = new Map<ParsedEvent, RelayEvent>();
  const free = new Map<ParsedEvent, string>();
  const errors: FieldError[] = [];
  for (const [i, draft] of own.entries()) {
    const [key, line, erasedMs] = [keys[i] ?? "", lines[i], erased[i]];
    const row = found.get(key);
    if (row !== undefined) {
      const event = EVENT.read(row, key);
      if (event === DAMAGED) errors.push(used(draft, DAMAGED_RECORD));
      else if (isRepeat(draft, event, bodyData(event))) events.set(draft, event);
      else errors.push(mismatch(draft));
    } else if (line !== undefined) {
      // The event was removed meanwhile, or erased. For a day, all that is known is that the id is taken.
      const over = erasedMs === undefined ? now - ordinalTime(line) >= DAY_MS : now - erasedMs >= ERASED_ID_MS;
      if (over) free.set(draft, line);
      else errors.push(erasedMs === undefined ? mismatch(draft) : used(draft, ERASED));
    }
  }
  refuse(errors);
  return { events, free };
}

type Idempotency = NonNullable<AcceptRequest["idempotency"]>;

interface Remembered {
  readonly digest: string;
  /** Epoch ms. */
  readonly until: number;
  readonly answer: readonly Accepted[];
}

/**
 * Remembers a request with its answer for a day, or makes the commit fail.
 * @param was the row of an expired request under the same key; its old expiry no longer applies
 */
export function rememberRequest(
  { scope, key, digest }: Idempotency,
  answer: readonly Accepted[],
  now: number,
  was: string | null,
): readonly Change[] {
  const row = IDEMPOTENCY.key({ scope, hash: key });
  const until = now + DAY_MS;
  const value = JSON.stringify({ digest, until, answer } satisfies Remembered);
  const changes: Change[] = [{ op: "put", key: row, value, if: was }];
  const before = was === null ? undefined : remembered(was);
  if (before !== undefined) changes.push(EXPIRY.delete({ at: before.until, target: row }));
  changes.push(EXPIRY.put({ at: until, target: row }, ""));
  return changes;
}

/** Returns `undefined` for a damaged record. */
function remembered(text: string): Remembered | undefined {
  try {
    const read = JSON.parse(text) as Partial<Remembered> | null;
    const { digest, until, answer } = read ?? {};
    const whole = typeof digest === "string" && Number.isFinite(until) && Array.isArray(answer);
    return whole ? (read as Remembered) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the answer to an earlier request; else the text of the expired row, or `null`.
 * @throws Problem IDEMPOTENCY_MISMATCH when the key was used for another request
 */
export async function recallRequest(
  storage: Pick<Storage, "getItem">,
  { scope, key, digest }: Idempotency,
  now: number,
): Promise<{ readonly answer: readonly Accepted[] } | { readonly was: string | null }> {
  const text = await storage.getItem(IDEMPOTENCY.key({ scope, hash: key }));
  if (text === undefined) return { was: null };
  const before = remembered(text);
  // It cannot be known whether the same was accepted, and accepting it again could send it twice.
  if (before === undefined)
    throw new Problem("IDEMPOTENCY_MISMATCH", "The stored record of this Idempotency-Key is damaged. Use another one.");
  const { until, answer } = before;
  if (until <= now) return { was: text };
  if (before.digest !== digest) {
    throw new Problem("IDEMPOTENCY_MISMATCH", "This Idempotency-Key was used for another request.");
  }
  return { answer: answer.map((one) => ({ ...one, duplicate: true })) };
}
