/** Works on many items, a few at a time: the thread pool has four threads, and a disk works better with a few requests to sort. */
const AT_ONCE = 16;

/** Waits for everything that was begun, even when some of it fails. @throws the first failure */
export async function pool<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  let at = 0;
  const workers = Array.from({ length: Math.min(AT_ONCE, items.length) }, async () => {
    while (at < items.length) await work(items[at++] as T);
  });
  const ended = await Promise.allSettled(workers);
  for (const end of ended) if (end.status === "rejected") throw end.reason;
}
