/** Stands for something in a busy map, and is emptied when that is over: for the reason, see `Chain`. */
export interface Ticket<T> {
  of: T | undefined;
}
