/** How much of upstream may be in flight: counted in messages, and in the bytes that they are expected to have. */
import type { RawMessage } from "./message.ts";

type Sized = Pick<RawMessage, "payload">;

/** Most bytes in flight, as far as the sizes of messages are known before they are there. */
const MOST_BYTES = 64 * 1024 * 1024;
/** A message is taken to have as many before any has come, so that the first are few. */
const FIRST_BYTES = 1024 * 1024;
/** How much one message counts in the size that the next is expected to have. */
const WEIGHT = 1 / 32;

/** @param most messages */
export function createWindow(most: number) {
  let count = 0;
  let bytes = 0;
  let expected = FIRST_BYTES;
  return {
    add(messages: readonly Sized[]): void {
      count += messages.length;
      for (const { payload } of messages) {
        bytes += payload.length;
        expected += (payload.length - expected) * WEIGHT;
      }
    },
    remove({ payload }: Sized): void {
      count--;
      bytes -= payload.length;
    },
    /** How many messages more may be in flight; 0: none before some are removed. */
    room(): number {
      if (count >= most || bytes >= MOST_BYTES) return 0;
      const within = Math.floor((MOST_BYTES - bytes) / Math.max(1, expected));
      return Math.min(most - count, Math.max(1, within));
    },
  };
}
