/** Waits while nothing else happens: timers of the relay's clock do not keep a process alive, so a command must. */
import type { Clock } from "../../ports/clock.ts";

/** Resolves after `ms`; the process does not end before. */
export async function waitFor(clock: Clock, ms: number): Promise<void> {
  const { port1: alive } = new MessageChannel();
  alive.ref();
  try {
    await clock.sleep(clock.now() + ms);
  } finally {
    alive.close();
  }
}
