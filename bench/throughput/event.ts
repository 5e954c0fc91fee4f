// The event that the benchmark publishes: 600 bytes as a request body, with the time of its sending inside.

const PAD = "x".repeat(516);
/** Every delivery body ends so; the receiver checks it. */
export const ENDING = `,"pad":"${PAD}"}}`;
export const KEY_ID = "key_bench";

/** `at`: nanoseconds of the machine's monotonic clock, 16 digits, which all processes of a run share. */
export const publication = (keyId = KEY_ID): string =>
  `{"type":"bench:event","keyId":"${keyId}","data":{"at":"${stamp()}","pad":"${PAD}"}}`;

/** A delivery body of the same size, for the raw loop. */
export const deliveryLike = (): string =>
  `{"id":"evt_00000000000000000000000000","type":"bench:event","keyId":"${KEY_ID}",` +
  `"createdAt":"2026-01-01T00:00:00.000Z","data":{"at":"${stamp()}"${ENDING}`;

const stamp = (): string => String(process.hrtime.bigint()).padStart(16, "0");

/** When a delivery's event was sent, in ms of the monotonic clock. */
export function sentAt(body: string): number {
  const at = body.indexOf('"at":"', 100) + 6;
  return Number(body.slice(at, body.indexOf('"', at))) / 1e6;
}

/** When the relay accepted it, in epoch ms (the publisher leaves `createdAt` to the relay). */
export function acceptedAt(body: string): number {
  const at = body.indexOf('"createdAt":"') + 13;
  return Date.parse(body.slice(at, at + 24));
}

export const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;
