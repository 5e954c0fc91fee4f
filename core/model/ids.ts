/** Makes ids. Ordinals are ULIDs in lower case (https://github.com/ulid/spec): 48 bits of time, 80 of randomness, monotonic. */
import { randomBytes } from "node:crypto";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const ORDINAL = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/** Ordinals follow a clock that is set back by more than this, ms: a new one must not seem to come from the future. */
const BACK_MS = 1_000;

/**
 * Makes ordinals that grow strictly within one process and sort by time over all processes. A clock that is set back by
 * more than a second sets them back too; they still never repeat, because most of each is random.
 */
export function ordinals(now: () => number): () => string {
  let time = -1;
  let timeText = "";
  let random = new Uint8Array(16);
  return () => {
    const current = Math.max(0, now());
    if (current > time || current < time - BACK_MS) {
      time = current;
      timeText = encodeTime(time);
      random = randomDigits(16);
    } else increment(random);
    return timeText + text(random);
  };
}

const randomDigits = (count: number): Uint8Array<ArrayBuffer> => randomBytes(count).map((byte) => byte & 31);

function increment(digits: Uint8Array): void {
  for (let i = 15; i >= 0; i--) {
    if ((digits[i] as number) < 31) {
      digits[i] = (digits[i] as number) + 1;
      return;
    }
    digits[i] = 0;
  }
  throw new Error("all ids of this millisecond are used up");
}

function text(digits: Uint8Array): string {
  let out = "";
  for (const digit of digits) out += ALPHABET[digit];
  return out;
}

function encodeTime(time: number): string {
  let out = "";
  for (let rest = time, i = 0; i < 10; i++) {
    out = (ALPHABET[rest % 32] as string) + out;
    rest = Math.floor(rest / 32);
  }
  return out;
}

/** The value of each digit, by its character. */
const DIGITS = new Int8Array(128).fill(-1);
for (let i = 0; i < ALPHABET.length; i++) DIGITS[ALPHABET.charCodeAt(i)] = i;

/** Returns the epoch ms at which an ordinal was made. */
export function ordinalTime(ordinal: string): number {
  let time = 0;
  for (let i = 0; i < 10; i++) time = time * 32 + (DIGITS[ordinal.charCodeAt(i)] as number);
  return time;
}

/** Returns the smallest ordinal of a time: where a range over time begins. */
export const ordinalFloor = (time: number): string => encodeTime(Math.max(0, Math.floor(time))) + "0".repeat(16);

export const isOrdinal = (text: string): boolean => ORDINAL.test(text);

/** Returns the ordinal inside an event id that the relay made, else undefined. */
export function eventOrdinal(eventId: string): string | undefined {
  const ordinal = eventId.slice(4);
  return eventId.startsWith("evt_") && isOrdinal(ordinal) ? ordinal : undefined;
}

/** Makes a prefixed random id (`sub_…`, `req_…`) of 128 bits. */
export const randomId = (prefix: string): string => `${prefix}_${text(randomDigits(26))}`;
