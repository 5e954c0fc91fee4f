/** Works on many items, a few at a time. */

/** Waits for everything that was begun, even when some of it fails. @throws the first failure */
export async function pool<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  let at = 0;
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, async () => {
    while (at < items.length) await work(items[at++] as T);
  });
  const ended = await Promise.allSettled(workers);
  for (const end of ended) if (end.status === "rejected") throw end.reason;
}
