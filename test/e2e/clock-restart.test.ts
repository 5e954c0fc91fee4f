// A clock that was wrong for a while, and a restart when it is right again: nothing waits for the wrong time to come.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { startChild, type ChildRelay } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { startReceiver } from "../support/receiver.ts";

const LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
const RETRY_MS = 3_000;

it.for(["+1d", "+1h", "+90s"])(
  "a relay that ran with its clock %s, was killed, and starts with the right one sends what it had accepted at once",
  async (ahead, { skip }) => {
    const missing = needs("faketime") ?? (existsSync(LIBRARY) ? undefined : `needs ${LIBRARY}`);
    skip(missing !== undefined, missing);
    const folder = testFolder();
    const file = join(folder, "faketime");
    const env = {
      LD_PRELOAD: LIBRARY,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: "1",
      DONT_FAKE_MONOTONIC: "1",
    };
    const start = (): Promise<ChildRelay> =>
      startChild(folder, {
        config: `retry: { attempts: 3, firstDelayMs: ${RETRY_MS}, factor: 1, maxDelayMs: ${RETRY_MS} },
          delivery: { perSubscription: 1, holdMs: 0 }, health: false,`,
        env,
      });
    writeFileSync(file, "+0");
    let healed = false;
    await using slow = await startReceiver({ script: () => (healed ? 200 : { do: "hang" }) });
    await using failing = await startReceiver({ script: () => (healed ? 200 : 500) });
    {
      await using relay = await start();
      await relay.call("POST", "/api-keys/key_1/webhooks", { url: slow.url(), events: ["a:b"] });
      await relay.call("POST", "/api-keys/key_1/webhooks", { url: failing.url(), events: ["c:d"] });
      writeFileSync(file, ahead);
      for (const n of [1, 2, 3])
        expect((await relay.publish({ type: "a:b", keyId: "key_1", id: `slow:${n}`, data: n })).status).toBe(202);
      expect((await relay.publish({ type: "c:d", keyId: "key_1", id: "failing:1", data: 1 })).status).toBe(202);
      await slow.waitFor(1);
      await failing.waitFor(1);
      writeFileSync(file, "+0");
      const attempts = async () =>
        (await relay.call("GET", "/api-keys/key_1/events/failing:1")).json.data.deliveries[0].attempts.length;
      await expect.poll(attempts, { interval: 20, timeout: 60_000 }).toBe(1);
      await relay.kill();
    }
    healed = true;
    await using relay = await start();
    const ready = performance.now();
    // One was under way and is made again; two were never tried.
    await slow.waitFor(4, 60_000);
    await failing.waitFor(2, 60_000);
    expect(performance.now() - ready).toBeLessThan(60_000);
    expect((await relay.publish({ type: "a:b", keyId: "key_1", id: "slow:4", data: 4 })).status).toBe(202);
    await slow.waitFor(5, 60_000);
  },
);
