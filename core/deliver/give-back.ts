/** Gives leases back unchanged, and once more when the queue could not take them: until a lease lapses nobody else sends. */
import type { Log } from "../ports/plugin.ts";
import type { Lease, Queue } from "../ports/storage.ts";

interface GiveBack {
  /** Gives one back; `dueAt` is when it is due again, `undefined`: as before. Never rejects. */
  give(lease: Lease, dueAt: number | undefined): Promise<void>;
  /** Tries those once more that the queue could not take. To be called when the queue has just answered. */
  again(): void;
}

export function createGiveBack(queue: Pick<Queue, "release">, log: Log): GiveBack {
  const kept = new Map<Lease, number | undefined>();

  async function released(lease: Lease, dueAt: number | undefined): Promise<boolean> {
    try {
      await queue.release(lease, dueAt);
      return true;
    } catch (error) {
      log.warn("a lease could not be given back", { subscriptionId: lease.subscriptionId, error: String(error) });
      return false;
    }
  }

  return {
    async give(lease, dueAt) {
      if (!(await released(lease, dueAt))) kept.set(lease, dueAt);
    },
    again() {
      if (kept.size === 0) return;
      const leases = [...kept];
      kept.clear();
      // Storage still has the line: what fails now lapses, or the next start finds it.
      for (const [lease, dueAt] of leases) void released(lease, dueAt);
    },
  };
}
