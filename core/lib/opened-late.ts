/** Opens something at its first use. Where that fails, as on a machine without descriptors, the next use tries again. */
interface OpenedLate<T> {
  /** @throws what the opening throws */
  use(): Promise<T>;
  /** Closes what has been opened, and opens nothing. Never rejects for an opening that failed. */
  close(): Promise<void>;
}

export function openedLate<T>(open: () => Promise<T>, close: (opened: T) => Promise<void>): OpenedLate<T> {
  let opened: Promise<T> | undefined;
  return {
    use: () =>
      (opened ??= open().catch((error: unknown) => {
        opened = undefined;
        throw error;
      })),
    async close() {
      const one = await opened?.catch(() => undefined);
      if (one !== undefined) await close(one);
    },
  };
}
