// One event to thousands of subscriptions of its key, through the command, SQLite and real sockets. Each of them makes a
// TLS connection, so ten thousand take minutes: `SUBSCRIPTIONS=10000 vitest run … test/e2e/fan-out.test.ts`.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { API_KEY, COUNT, SUBSCRIPTION } from "../../core/model/schema.ts";
import { secretAad, type Subscription } from "../../core/model/subscription.ts";
import type { Change } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { makeKeys } from "../../core/runtime/keys/keyring.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { startReceiver } from "../support/receiver.ts";
import { TEST_KEYS } from "../support/relay.ts";
import { until } from "../support/until.ts";

const SUBSCRIPTIONS = Number(process.env["SUBSCRIPTIONS"] ?? 1_000);
const folder = testFolder();

/** Subscriptions as the relay itself would have stored them, with secrets that it can open. */
async function fill(keyId: string, count: number, url: string): Promise<void> {
  const keys = makeKeys(TEST_KEYS);
  const storage = await sqlite({ dir: join(folder, "data") }).setup(pluginContext(systemClock(), folder));
  const made = Array.from({ length: count }, (_, i): Subscription => {
    const id = `sub_${keyId[0]}${String(i).padStart(25, "0")}`;
    const secret = `whsec_${Buffer.alloc(32, i % 251).toString("base64")}`;
    const at = Date.now();
    return {
      id,
      keyId,
      url: `${url}/${keyId}/${i}`,
      events: ["deposit:paid"],
      status: "active",
      createdAt: at,
      updatedAt: at,
      generation: 1,
      secrets: [{ version: 1, sealed: keys.seal(secret, secretAad(keyId, id, 1)), createdAt: at }],
    };
  });
  const put = (key: string, value: string): Change => ({ op: "put", key, value });
  for (let from = 0; from < count; from += 1_000) {
    const page = made.slice(from, from + 1_000);
    await storage.commit(page.map((sub) => put(SUBSCRIPTION.key({ keyId, id: sub.id }), JSON.stringify(sub))));
  }
  await storage.commit([put(COUNT.key({ keyId }), String(count)), put(API_KEY.key({ keyId }), String(Date.now()))]);
  await storage.dispose();
}

/** Memory of a process, MiB. */
async function memoryOf(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+) kB/.exec(text)?.[1]) / 1_024;
}

async function took(work: () => Promise<{ readonly status: number }>): Promise<number> {
  const began = performance.now();
  expect((await work()).status).toBe(202);
  return performance.now() - began;
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] as number;

describe("an event for thousands of subscriptions", { timeout: 900_000 }, () => {
  it("is acknowledged about as soon as one for a single subscription, and reaches each of them once", async () => {
    await using receiver = await startReceiver();
    await fill("wide", SUBSCRIPTIONS, receiver.url(""));
    await fill("narrow", 1, receiver.url(""));
    await using relay = await startChild(folder, {
      imports: ["sqlite"],
      config: `storage: sqlite({ dir: "./data" }), dataDir: "./data", subscriptions: { perKey: ${SUBSCRIPTIONS} },`,
    });
    const publish = (keyId: string) => relay.publish({ type: "deposit:paid", keyId, data: { n: 1 } });
    const narrow: number[] = [];
    for (let i = 0; i < 20; i++) narrow.push(await took(() => publish("narrow")));
    await receiver.waitFor(narrow.length);
    // All that follow are of the wide key. It is asked often: no look at each of them.
    const arrived = (): number => receiver.requests.length - narrow.length;

    const firstEver = await took(() => publish("wide"));
    await until(() => arrived() >= SUBSCRIPTIONS);
    const before = await memoryOf(relay.pid);
    const began = performance.now();
    const { status, json } = await publish("wide");
    const acknowledged = performance.now() - began;
    expect(status).toBe(202);
    expect(json.data.deliveries).toBe(SUBSCRIPTIONS);
    let most = before;
    await until(async () => {
      most = Math.max(most, await memoryOf(relay.pid));
      return arrived() >= 2 * SUBSCRIPTIONS;
    });
    const all = performance.now() - began;
    await until(async () => {
      const { json: shown } = await relay.call("GET", `/api-keys/wide/events/${json.data.id}`);
      return shown.data.status === "delivered";
    });
    // A busy machine answers some attempts too late, and they are made again; no attempt is made twice.
    const reached = new Set<string>();
    const attempts = receiver.requests
      .filter(({ headers }) => headers["webhook-id"] === json.data.id)
      .map(({ headers, path }) => {
        reached.add(path);
        return `${path} ${headers["x-relay-attempt"]}`;
      });
    expect(reached.size).toBe(SUBSCRIPTIONS);
    expect(new Set(attempts).size).toBe(attempts.length);
    const ms = (value: number): string => `${value.toFixed(1)} ms`;
    process.stdout.write(
      `202: one subscription ${ms(median(narrow))}, ${SUBSCRIPTIONS} ${ms(acknowledged)} (the first ever ${ms(firstEver)}); ` +
        `all delivered after ${ms(all)}; memory +${(most - before).toFixed(1)} MiB\n`,
    );
    // Not a time but a proportion: writing a line for each would take hundreds of times as long.
    expect(acknowledged).toBeLessThan(Math.max(...narrow) * 20 + 20);
    expect(most - before).toBeLessThan(150);
  });
});
