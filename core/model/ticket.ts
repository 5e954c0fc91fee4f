/**
 * Stands for something in a busy set or map, and is emptied when that is over. V8 makes a hash table anew again and again
 * under those who come and go, each old one points at the next, and all of them keep what they last held until the next
 * major collection: with tickets, that is next to nothing.
 */
export interface Ticket<T> {
  of: T | undefined;
}
