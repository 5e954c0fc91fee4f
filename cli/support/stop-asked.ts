/** Waits for the end that a person asks for. */

/** Resolves at the first SIGINT or SIGTERM. */
export function stopAsked(): Promise<void> {
  return new Promise((resolve) => {
    const stop = (): void => {
      process.off("SIGINT", stop).off("SIGTERM", stop);
      resolve();
    };
    process.on("SIGINT", stop).on("SIGTERM", stop);
  });
}
