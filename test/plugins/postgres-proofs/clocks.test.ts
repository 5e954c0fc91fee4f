// The clock of the server, or of a node, is set while lines wait, leases run and windows are open: all keep their length.
import { chmodSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Storage } from "../../../core/ports/storage.ts";
import { systemClock } from "../../../core/runtime/clock.ts";
import { claim, claimOne, due, endOf, enqueue } from "../../conformance/queue.ts";
import { noFaketime, settableClock } from "../../support/faketime.ts";
import { testFolder } from "../../support/folder.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { eachPostgresBench } from "../../support/postgres-bench.ts";
import { needs } from "../../support/needs.ts";
import { eventually } from "../../support/until.ts";

const missing = needs("postgres") ?? noFaketime;
/** Longer than a window of trust between two signs of life, on both sides of it. */
const OFFSETS = ["-1h", "+1h", "-90s", "+90s", "+0"];
const WAIT_MS = 1_200;
/** A step of less than this is believed; and the machine is busy. */
const LATE_MS = 12_000;

describe.skipIf(missing !== undefined)(`postgres() and clocks${missing === undefined ? "" : ` (${missing})`}`, () => {
  const bench = eachPostgresBench();
  const folder = testFolder();
  chmodSync(folder, 0o755);
  const clock = settableClock(folder);
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres({ env: clock.env });
  }, 60_000);
  afterAll(() => server[Symbol.asyncDispose]());

  /** A node's clock that is wrong by so much; it waits in its usual time. */
  function clockOff(by: () => number): Clock {
    const real = systemClock();
    return { ...real, now: () => real.now() + by(), sleep: (until, signal) => real.sleep(until - by(), signal) };
  }

  /** Resolves to how long it took until the one line that waits was claimed, ms. */
  async function waited(storage: Storage, from: number): Promise<number> {
    let took = 0;
    await eventually("it is claimed", async () => {
      const leases = await claim(storage.queue);
      for (const lease of leases) await storage.queue.settle(lease, [endOf(lease)]);
      took = performance.now() - from;
      return leases.length > 0;
    });
    return took;
  }

  it("keep waits, leases, pauses and windows when the server's is set", { timeout: 240_000 }, async () => {
    const open = (): Promise<Storage> => bench().open({ url: server.url, schema: "server_set", leaseMs: 15_000 });
    const [a, b] = [await open(), await open()];
    const take = { key: "k", sustained: { limit: 1, windowMs: 600_000 }, burst: { limit: 1, windowMs: 600_000 } };
    expect((await a.counters.take([take]))[0]?.code).toBeUndefined();
    for (const [n, offset] of OFFSETS.entries()) {
      const lease = await (async () => {
        await enqueue(a, due("held", n, Date.now()));
        return claimOne(a.queue);
      })();
      await enqueue(a, due("later", n, Date.now() + WAIT_MS));
      const from = performance.now();
      clock.set(offset);
      const took = await waited(b, from);
      expect(took, offset).toBeGreaterThan(WAIT_MS - 100);
      expect(took, offset).toBeLessThan(LATE_MS);
      // Nobody has taken over what the first one holds, nor is it thought dead.
      expect(await a.queue.extend(lease), offset).toBe(true);
      expect(await claim(b.queue), offset).toEqual([]);
      await a.queue.settle(lease, [endOf(lease)]);
      await b.queue.pause("sub_rests", WAIT_MS);
      await enqueue(a, due("rests", n, Date.now()));
      const paused = await waited(b, performance.now());
      expect(paused, offset).toBeGreaterThan(WAIT_MS - 400);
      expect(paused, offset).toBeLessThan(LATE_MS);
      expect((await b.counters.take([take]))[0]?.code, offset).toBe("RATE_LIMIT_EXCEEDED");
    }
  });

  it("keep waits and leases when a node's is set, or was wrong from the start", { timeout: 240_000 }, async () => {
    clock.set("+0");
    let by = 0;
    const wrong = clockOff(() => by);
    const [a, b] = [
      await bench().open({ url: server.url, schema: "node_set", leaseMs: 15_000 }, wrong),
      await bench().open({ url: server.url, schema: "node_set", leaseMs: 15_000 }),
    ];
    for (const [n, ms] of [3_600_000, -3_600_000, 90_000, -90_000].entries()) {
      by = ms;
      // It writes the time by its own clock, and means: in so long.
      await enqueue(a, due("later", n, wrong.now() + WAIT_MS));
      const from = performance.now();
      const took = await waited(b, from);
      expect(took, String(ms)).toBeGreaterThan(WAIT_MS - 100);
      expect(took, String(ms)).toBeLessThan(LATE_MS);
      await enqueue(a, due("held", n, wrong.now()));
      const lease = await claimOne(a.queue);
      by = -ms;
      expect(await claim(b.queue), String(ms)).toEqual([]);
      expect(await a.queue.extend(lease), String(ms)).toBe(true);
      expect(await a.queue.sweep(), String(ms)).toBe(0);
      expect(await claim(b.queue), String(ms)).toEqual([]);
      await a.queue.settle(lease, [endOf(lease)]);
    }
  });

  it("let a server that was away for an hour go on where it was", { timeout: 120_000 }, async () => {
    clock.set("+0");
    const storage = await bench().open({ url: server.url, schema: "away", leaseMs: 15_000 });
    await enqueue(storage, due("later", 1, Date.now() + WAIT_MS));
    const from = performance.now();
    await server.kill();
    clock.set("+1h");
    await server.start();
    let took = 0;
    await eventually("it is claimed", async () => {
      const leases = await claim(storage.queue).catch(() => []);
      took = performance.now() - from;
      return leases.length > 0;
    });
    expect(took).toBeGreaterThan(WAIT_MS - 100);
    expect(took).toBeLessThan(60_000);
  });
});
