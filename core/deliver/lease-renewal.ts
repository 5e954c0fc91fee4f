/** Renews leases: one call from time to time keeps everything that is under way for long on this node. */
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Lease, Queue } from "../ports/storage.ts";

interface LeaseRenewal {
  /** Marks a delivery as under way until `ended`. */
  began(lease: Lease): void;
  ended(lease: Lease): void;
  start(): void;
  /** Call it when nothing is under way any more. */
  stop(): void;
}

/** Does nothing where leases last as long as the process. */
export function createLeaseRenewal(queue: Pick<Queue, "renewal">, clock: Clock, log: Log): LeaseRenewal {
  const { renewal } = queue;
  const underWay = new Set<Lease>();
  const stopping = new AbortController();
  let running = false;

  async function run(everyMs: number): Promise<void> {
    for (;;) {
      await clock.sleep(clock.now() + everyMs, stopping.signal);
      if (underWay.size === 0) continue;
      try {
        await renewal?.renew(underWay);
      } catch (error) {
        // The next round tries again, before the leases lapse.
        log.warn("leases could not be renewed", { error: String(error) });
      }
    }
  }

  return {
    began: (lease) => void (renewal !== undefined && underWay.add(lease)),
    ended: (lease) => void underWay.delete(lease),
    start() {
      if (renewal === undefined || running) return;
      running = true;
      run(renewal.everyMs).catch(() => undefined);
    },
    stop: () => stopping.abort(),
  };
}
