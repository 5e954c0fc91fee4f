// A backlog in the table is worked off without a pause, whatever else is under way here.
import { expect, it } from "vitest";
import type { Lease } from "../../../core/ports/storage.ts";
import { due, endOf, enqueue } from "../../conformance/queue.ts";
import { describePostgres, eachPostgresBench, sharedPostgres } from "../../support/postgres-bench.ts";

const MOST = 16;
/** Far less than the time after which a queue looks at the table in any case. */
const SOON_MS = 2_500;

describePostgres("a backlog on postgres()", () => {
  const server = sharedPostgres();
  const bench = eachPostgresBench();

  it("wakes the claims when its subscription has room again, though others were served from here meanwhile", async () => {
    const storage = await bench().open({ url: server().url, schema: "backlog" });
    const { queue } = storage;
    const busy = new Map<string, number>();
    async function claimed(): Promise<readonly Lease[]> {
      const leases = await queue.claim({ limit: 128, perSubscription: MOST, busy });
      for (const { subscriptionId: sub } of leases) busy.set(sub, (busy.get(sub) ?? 0) + 1);
      return leases;
    }
    async function end(leases: readonly Lease[]): Promise<void> {
      for (const lease of leases) {
        busy.set(lease.subscriptionId, (busy.get(lease.subscriptionId) ?? 1) - 1);
        await queue.settle(lease, [endOf(lease)]);
      }
    }
    // What comes while it rests waits in the table.
    await queue.pause("sub_a", 60_000);
    await enqueue(storage, ...Array.from({ length: 3 * MOST }, (_, n) => due("a", n, Date.now())));
    await queue.pause("sub_a", 0);
    const first = await claimed();
    expect(first).toHaveLength(MOST);
    while ((await claimed()).length > 0);
    await enqueue(storage, due("b", 1, Date.now()));
    await end(await claimed());
    await end(first);
    const began = performance.now();
    await queue.wake(AbortSignal.timeout(2 * SOON_MS));
    expect(performance.now() - began).toBeLessThan(SOON_MS);
    expect(await claimed()).toHaveLength(MOST);
  });
});
