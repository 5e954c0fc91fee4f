/** The prefixes of what an erasure deletes: after it, the storage takes the bytes from its files as well. */
import {
  ATTEMPTS,
  DELIVERY,
  ERASE_KEY,
  ERASING,
  EVENT,
  EVENT_ID,
  FANOUT,
  SUBSCRIPTION,
} from "../../../core/model/schema.ts";
export const ERASED = [EVENT, EVENT_ID, DELIVERY, ATTEMPTS, FANOUT, ERASING, ERASE_KEY, SUBSCRIPTION].map(
  ({ start }) => start,
);
