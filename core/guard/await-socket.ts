/** Waits for what one owner of a socket expects of it. */
import type { Socket } from "node:net";

type Listeners = Readonly<Record<string, (value: never) => void>>;

/**
 * Listens to a socket until one of the listeners resolves or fails. A failure, or the signal, destroys the socket.
 * @param listen returns the listeners by their events
 * @throws what a listener fails with, or the signal's reason
 */
export const awaitSocket = <T>(
  socket: Socket,
  signal: AbortSignal,
  listen: (resolve: (value: T) => void, fail: (error: Error) => void) => Listeners,
): Promise<T> =>
  new Promise((resolve, reject) => {
    const settle = (): void => {
      signal.removeEventListener("abort", abort);
      for (const [event, listener] of listeners) socket.off(event, listener);
      // The next owner of the socket adds its own listener; an error before that must not be uncaught.
      socket.on("error", () => undefined);
    };
    const fail = (error: Error): void => {
      settle();
      socket.destroy();
      reject(error);
    };
    const abort = (): void => fail(signal.reason as Error);
    const done = (value: T): void => {
      settle();
      resolve(value);
    };
    const listeners = Object.entries(listen(done, fail)) as [event: string, listener: () => void][];
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    for (const [event, listener] of listeners) socket.on(event, listener);
  });
