// The event that the benchmark publishes: 600 bytes as a request body, with its number and the time of its sending inside.

const PAD = "x".repeat(500);
/** Every delivery body ends so; the receiver checks it. */
export const ENDING = `,"pad":"${PAD}"}}`;
export const KEY_ID = "key_bench";
/** Connections that publish at once, and those of the raw loop. */
export const CONNECTIONS = 64;

/** Content of one request: one event that the relay names, one with an id of its own, or a hundred of those. */
export const FORMS = ["single", "ids", "batch", "ndjson"] as const;
export type Form = (typeof FORMS)[number];

const BATCH = 100;
export const eventsIn = (form: Form): number => (form === "batch" || form === "ndjson" ? BATCH : 1);
export const typeOf = (form: Form): string => (form === "ndjson" ? "application/x-ndjson" : "application/json");

let last = 0;
/** The number of the event that this process made last. Each event has one of its own, by which its delivery is found. */
export const lastNumber = (): number => last;
const digits = (number: number): string => String(number).padStart(9, "0");

/** `at`: nanoseconds of the machine's monotonic clock, 16 digits, which all processes of a run share. */
export const publication = (keyId = KEY_ID, at = stamp()): string =>
  `{"type":"bench:event","keyId":"${keyId}","data":{"at":"${at}","n":"${digits(++last)}","pad":"${PAD}"}}`;

/** Ids are of one length, so that requests are; those of another process do not meet them. */
const run = String(process.pid).padStart(8, "0");
const withId = (keyId: string, at: string): string =>
  `{"id":"bench-${run}-${digits(last + 1)}",${publication(keyId, at).slice(1)}`;

/** The body of one request. All of a form and key are equally long. */
export function request(form: Form, keyId = KEY_ID, at = stamp()): string {
  if (form === "single") return publication(keyId, at);
  if (form === "ids") return withId(keyId, at);
  const events = Array.from({ length: BATCH }, () => withId(keyId, at));
  return form === "batch" ? `[${events.join(",")}]` : events.join("\n");
}

/** A delivery body of the same size, for the raw loop. */
export const deliveryLike = (): string =>
  `{"id":"evt_00000000000000000000000000","type":"bench:event","keyId":"${KEY_ID}",` +
  `"createdAt":"2026-01-01T00:00:00.000Z","data":{"at":"${stamp()}","n":"${digits(0)}"${ENDING}`;

export const stamp = (): string => String(process.hrtime.bigint()).padStart(16, "0");

/** When a delivery's event was sent, in ms of the monotonic clock. */
export function sentAt(body: string): number {
  const at = body.indexOf('"at":"', 100) + 6;
  return Number(body.slice(at, body.indexOf('"', at))) / 1e6;
}

/** The number of a delivery's event. */
export function numberIn(body: string): number {
  const at = body.indexOf('"n":"', 100) + 5;
  return Number(body.slice(at, body.indexOf('"', at)));
}

export const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;
