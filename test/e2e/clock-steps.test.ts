// The machine's clock is set back and forwards by hours under a relay that works: it goes on as if nothing had happened.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { startReceiver } from "../support/receiver.ts";

const LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

it("a relay whose clock is set delivers, retries, answers and stops in its usual time", async ({ skip }) => {
  const missing = needs("faketime") ?? (existsSync(LIBRARY) ? undefined : `needs ${LIBRARY}`);
  skip(missing !== undefined, missing);
  const folder = testFolder();
  const file = join(folder, "faketime");
  const set = (offset: string): void => writeFileSync(file, offset);
  set("+0");
  await using receiver = await startReceiver({
    script: ({ headers }) =>
      String(headers["webhook-id"]).startsWith("bad") && headers["x-relay-attempt"] === "1" ? 500 : 200,
  });
  await using relay = await startChild(folder, {
    config: "retry: { attempts: 3, firstDelayMs: 700, factor: 1, maxDelayMs: 700 },",
    env: { LD_PRELOAD: LIBRARY, FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: "1", DONT_FAKE_MONOTONIC: "1" },
  });
  await relay.call("POST", "/api-keys/key_1/webhooks", { url: receiver.url(), events: ["*"] });
  let sent = 0;
  let n = 0;
  for (const offset of ["+0", "-1h", "+2h", "-30m"]) {
    set(offset);
    const began = performance.now();
    for (const id of [`good:${n}`, `bad:${n++}`])
      expect((await relay.publish({ type: "a:b", keyId: "key_1", id, data: 1 })).status).toBe(202);
    sent += 3;
    await receiver.waitFor(sent, 60_000).catch((error: unknown) => expect.fail(`at ${offset}: ${String(error)}`));
    expect(performance.now() - began, `at ${offset}`).toBeGreaterThanOrEqual(690);
  }
  // A step while a retry is held: neither at once nor an hour late.
  set("+0");
  await relay.publish({ type: "a:b", keyId: "key_1", id: "bad:held", data: 1 });
  await receiver.waitFor(sent + 1);
  const attempts = async () =>
    (await relay.call("GET", "/api-keys/key_1/events/bad:held")).json.data.deliveries[0].attempts.length;
  await expect.poll(attempts, { interval: 10 }).toBe(1);
  set("-2h");
  await receiver.waitFor(sent + 2, 60_000);
  const [first, second] = receiver.requests.slice(-2);
  expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(690);
  expect(receiver.requests).toHaveLength(sent + 2);
  const from = performance.now();
  relay.running.kill("SIGTERM");
  expect((await relay.running.ended).code).toBe(0);
  expect(performance.now() - from).toBeLessThan(30_000);
});
