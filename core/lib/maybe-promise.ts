/** An answer that is returned directly where it is at hand, and as a promise where it must be fetched. `await` takes either. */
export type MaybePromise<T> = T | Promise<T>;
