/** Bad messages that cannot be set aside now, because what they are passed to does not take them: tried again, and said. */
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { failureReason } from "./sessions.ts";

interface Stuck {
  /**
   * Does it again and again until it works, as once an exchange has a queue.
   * @param ending ends the attempts
   * @throws the error of the last attempt when `ending` aborts before
   */
  insist(work: () => Promise<void>, ending: AbortSignal): Promise<void>;
  /** Says in one line for `/readyz` how many there are, and why; `undefined`: none. */
  readiness(): string | undefined;
}

/** What could not be set aside is tried again so often. */
const AGAIN_MS = 5_000;

export function createStuck({ clock, log }: Pick<PluginContext, "clock" | "log">, source: string): Stuck {
  /** As many as may be in flight would let nothing through. */
  let count = 0;
  let why: string | undefined;
  return {
    async insist(work, ending) {
      let failed = false;
      for (;;) {
        try {
          await work();
          if (failed) count--;
          return;
        } catch (error) {
          why = failureReason(error);
          if (!failed) log.warn("a message cannot be set aside", { source, error: why });
          if (!failed) count++;
          failed = true;
          await clock.sleep(clock.now() + AGAIN_MS, ending).catch(() => undefined);
          if (!ending.aborted) continue;
          count--;
          throw error;
        }
      }
    },
    readiness: () => (count === 0 ? undefined : `${count} messages cannot be set aside: ${why ?? ""}`),
  };
}
