/**
 * Parses published events, and finds every problem of a batch before it refuses anything.
 *
 * The checks are written by hand, not with a schema library: this runs for every event on the one thread that also
 * delivers, and it must keep the raw text of `data`, which a parsed value has lost.
 */
import { deliveryCount, MAX_EVENT_BYTES, type RelayEvent } from "../model/event.ts";
import { readEventHeaders, type EventHeaders } from "../model/header-names.ts";
import { faultIn } from "../lib/json-fault.ts";
import { MAX_DEPTH, members } from "../lib/json.ts";
import { isEventId, isEventName, isKeyId, OPERATIONAL } from "../model/names.ts";
import { Problem, type FieldError } from "../model/problem.ts";
import { isoTime, parseTime } from "../lib/time.ts";
import type { MaybePromise } from "../lib/maybe-promise.ts";
import type { Accepted, Publication, PublicationDefaults } from "../ports/source.ts";

/** A published event whose fields are all valid. */
export interface ParsedEvent {
  readonly path: string;
  readonly id?: string;
  readonly type: string;
  readonly keyId: string;
  /** Epoch ms; absent when the publisher gave none. */
  readonly createdAt?: number;
  readonly headers?: EventHeaders;
  /** The published text of `data`, character for character. */
  readonly data: string;
}

/**
 * Returns what of an event's data differs from the schema of its type so that the event is refused, and where. Data that
 * differs under `"warn"` is counted and logged, and passes. Takes time in proportion to the data, whatever the data is.
 */
export type EventCheck = (type: string, data: unknown) => Pick<FieldError, "path" | "message"> | undefined;

/** Unknown names that are listed per event; the rest are only counted. */
const UNKNOWN_LISTED = 5;
const NAME_SHOWN = 64;

interface Findings {
  readonly large: FieldError[];
  readonly unreadable: FieldError[];
  readonly wrong: FieldError[];
}

const NO_DEFAULTS: PublicationDefaults = {};

const at = (path: string, field: string): string => (path === "" ? field : `${path}.${field}`);

/** Characters of JSON between two turns for other work: a few milliseconds, with the checks of schemas. */
const CHARACTERS_AT_ONCE = 65_536;
const immediate = (): Promise<void> => new Promise((turned) => void setImmediate(turned));

/**
 * @param catalogue event names that may be published; `undefined`: every well-formed one
 * @param checks judges data by the schema of its type; `undefined`: no type has one
 * @param turn resolves when other work has had its turn
 * @returns no promise for a short list
 * @throws Problem PAYLOAD_TOO_LARGE, INVALID_JSON or VALIDATION_FAILED, with every problem of every event
 */
export function parseEvents(
  publications: readonly Publication[],
  catalogue: ReadonlySet<string> | undefined,
  check?: EventCheck,
  turn = immediate,
): MaybePromise<readonly ParsedEvent[]> {
  const findings: Findings = { large: [], unreadable: [], wrong: [] };
  const drafts: ParsedEvent[] = [];
  const rest = publications[Symbol.iterator]();

  /** @returns whether all is read */
  function read(): boolean {
    let characters = 0;
    while (characters < CHARACTERS_AT_ONCE) {
      const { value: publication, done } = rest.next();
      if (done === true) return true;
      const draft = readOne(publication, catalogue, check, findings);
      if (draft !== undefined) drafts.push(draft);
      characters += publication.text.length;
    }
    return false;
  }

  async function readRest(): Promise<readonly ParsedEvent[]> {
    do await turn();
    while (!read());
    refuse(findings);
    return drafts;
  }

  if (!read()) return readRest();
  refuse(findings);
  return drafts;
}

function refuse({ large, unreadable, wrong }: Findings): void {
  if (large.length + unreadable.length + wrong.length === 0) return;
  const errors = [...large, ...unreadable, ...wrong];
  if (large.length > 0)
    throw new Problem("PAYLOAD_TOO_LARGE", `An event may have at most ${MAX_EVENT_BYTES} bytes.`, { errors });
  if (unreadable.length > 0) {
    throw new Problem("INVALID_JSON", `Send JSON (RFC 8259), nested at most ${MAX_DEPTH} levels deep.`, { errors });
  }
  throw new Problem("VALIDATION_FAILED", "Correct the fields in `errors`; nothing was stored.", { errors });
}

/** Counts bytes only where the number of characters leaves it open. */
const isLarge = (text: string): boolean =>
  text.length * 3 > MAX_EVENT_BYTES && (text.length > MAX_EVENT_BYTES || Buffer.byteLength(text) > MAX_EVENT_BYTES);

function readOne(
  { text, path, defaults = NO_DEFAULTS }: Publication,
  catalogue: ReadonlySet<string> | undefined,
  check: EventCheck | undefined,
  findings: Findings,
): ParsedEvent | undefined {
  if (isLarge(text)) {
    findings.large.push({ path, message: `is larger than ${MAX_EVENT_BYTES} bytes` });
    return undefined;
  }
  // The scan comes first: it stops at the first level too many, where JSON.parse would go a million levels deep.
  const all = members(text);
  if (all === "too deep") {
    findings.unreadable.push({ path, message: `is nested deeper than ${MAX_DEPTH} levels` });
    return undefined;
  }
  const value = parse(text);
  if (value === undefined) {
    findings.unreadable.push({ path, message: `is not valid JSON (${faultIn(text)})` });
    return undefined;
  }
  if (all === "not an object") {
    findings.wrong.push({ path, message: "must be an object" });
    return undefined;
  }
  const { wrong } = findings;
  const before = wrong.length;
  const fields = value as Readonly<Record<string, unknown>>;
  const { id = defaults.id, type = defaults.type, keyId = defaults.keyId, createdAt } = fields;
  const given = { id: false, type: false, keyId: false, createdAt: false, headers: false, data: false };
  let data = "";
  let unknown = 0;
  for (const member of all) {
    const { name } = member;
    if (Object.hasOwn(given, name)) {
      const field = name as keyof typeof given;
      if (given[field]) wrong.push({ path: at(path, name), message: "is given more than once" });
      given[field] = true;
      if (name === "data") data = text.slice(member.start, member.end);
    } else if (++unknown <= UNKNOWN_LISTED) {
      wrong.push({ path: at(path, name.slice(0, NAME_SHOWN)), message: "is not a field of an event" });
    }
  }
  if (unknown > UNKNOWN_LISTED) wrong.push({ path, message: `has ${unknown - UNKNOWN_LISTED} more unknown fields` });
  const note = (field: "id" | "type" | "keyId" | "createdAt", message: string | undefined): void => {
    if (message !== undefined) wrong.push({ path: at(path, field), message });
  };
  note("type", type === undefined ? "is missing" : wrongType(type, catalogue));
  note("keyId", keyId === undefined ? "is missing" : wrongKeyId(keyId));
  if (!given.data) wrong.push({ path: at(path, "data"), message: "is missing" });
  if (id !== undefined) note("id", wrongId(id));
  const time = typeof createdAt === "string" ? parseTime(createdAt) : undefined;
  if (given.createdAt && time === undefined) note("createdAt", "must be an RFC 3339 date-time with an offset");
  const headers = given.headers ? headersOf(fields["headers"], path, wrong) : undefined;
  if (wrong.length > before) return undefined;
  const refusal = check?.(type as string, fields["data"]);
  if (refusal !== undefined) {
    wrong.push({ path: at(path, refusal.path), message: refusal.message });
    return undefined;
  }
  const known = { path, id: id as string | undefined, type: type as string, keyId: keyId as string, createdAt: time };
  return headers === undefined ? { ...known, data } : { ...known, headers, data };
}

function headersOf(given: unknown, path: string, wrong: FieldError[]): EventHeaders | undefined {
  const read = readEventHeaders(given);
  if (!Array.isArray(read)) return read as EventHeaders;
  wrong.push(...read.map((one) => ({ ...one, path: at(path, one.path) })));
  return undefined;
}

/** Returns `undefined` when the text is not JSON (which has no such value). */
function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function wrongType(type: unknown, catalogue: ReadonlySet<string> | undefined): string | undefined {
  if (typeof type !== "string") return "must be a string";
  if (type.startsWith(OPERATIONAL)) return `must not start with ${OPERATIONAL}: those names are the relay's own`;
  if (catalogue?.has(type)) return undefined;
  if (!isEventName(type)) return "must be 1 to 128 characters of A-Z a-z 0-9 _ - in parts separated by : or .";
  return catalogue === undefined ? undefined : "is not in the catalogue of event names";
}

function wrongKeyId(keyId: unknown): string | undefined {
  if (typeof keyId !== "string") return "must be a string";
  return isKeyId(keyId) ? undefined : "must be 1 to 64 characters of A-Z a-z 0-9 _ : -, the first a letter or digit";
}

function wrongId(id: unknown): string | undefined {
  if (typeof id !== "string") return "must be a string";
  return isEventId(id) ? undefined : "must be 1 to 128 characters of A-Z a-z 0-9 _ : -, the first a letter or digit";
}

/** @throws Problem NOT_FOUND: the same for another owner's key and for one that does not exist */
export function ownsAll(drafts: readonly ParsedEvent[], keys: readonly string[] | undefined): void {
  if (keys === undefined || drafts.every(({ keyId }) => keys.includes(keyId))) return;
  throw new Problem("NOT_FOUND", "There is no such resource.");
}

/** Returns the answer to the publisher for a stored event. */
export const answerOf = (event: RelayEvent, duplicate: boolean): Accepted => ({
  id: event.id,
  type: event.type,
  keyId: event.keyId,
  createdAt: isoTime(event.createdAt),
  deliveries: deliveryCount(event),
  duplicate,
});
