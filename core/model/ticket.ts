/** A map value that can be cleared early, for the garbage collector: for the reason, see `LinkedList`. */
export interface Ticket<T> {
  of: T | undefined;
}
