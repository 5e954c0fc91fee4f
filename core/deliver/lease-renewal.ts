/** Renewal of leases: what is under way for long stays with this node, by one call now and then for all of it. */
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/plugin.ts";
import type { Lease, Queue } from "../ports/storage.ts";

export interface LeaseRenewal {
  /** A delivery is under way, until `ended`. */
  began(lease: Lease): void;
  ended(lease: Lease): void;
  start(): void;
  /** To be called when nothing is under way any more. */
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
        // Tried again at the next turn, before the leases lapse.
        log.warn("leases were not renewed", { error: String(error) });
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
