// Big batches to many subscriptions, from several publishers at once, through the command on each storage. What must hold
// at full size takes minutes for a storage: `EVENTS=1000 SUBSCRIPTIONS=50 PUBLISHERS=16 vitest run … test/e2e/big-batches.test.ts`.
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { startChild } from "../support/child-relay.ts";
import { loopbackCertificate } from "../support/certificates.ts";
import { testFolder } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { startRedis } from "../support/redis.ts";
import { until } from "../support/until.ts";

const missing = needs("redis");
const EVENTS = Number(process.env["EVENTS"] ?? 50);
const SUBSCRIPTIONS = Number(process.env["SUBSCRIPTIONS"] ?? 10);
const PUBLISHERS = Number(process.env["PUBLISHERS"] ?? 4);

/** Remembers of each event the last attempt at each path, and nothing else: there may be a million of them. */
async function countingReceiver() {
  const attempts = new Map<string, Uint8Array>();
  const counted = { pairs: 0, again: 0 };
  const server: Server = createServer(await loopbackCertificate(), (request, response) => {
    const { "webhook-id": id, "x-relay-attempt": attempt } = request.headers;
    request.resume().once("end", () => void response.end());
    const last = attempts.getOrInsertComputed(String(id), () => new Uint8Array(SUBSCRIPTIONS));
    const path = Number(request.url?.slice(1));
    if (last[path] === 0) counted.pairs++;
    // A busy machine answers some attempts too late, and they are made again; no attempt is made twice.
    else if (Number(attempt) <= (last[path] as number)) counted.again++;
    last[path] = Number(attempt);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    attempts,
    counted,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

const STORAGES = [
  ["sqlite", `sqlite({ dir: "./data" })`],
  ["filesystem", `filesystem({ dir: "./data" })`],
  ["memory", `memory()`],
  ["redis", undefined],
] as const;

describe.each(STORAGES)("batches of events for many subscriptions on %s", { timeout: 1_800_000 }, (name, text) => {
  it.skipIf(name === "redis" && missing !== undefined)(
    "reach each of them once, or are refused as a whole",
    async () => {
      await using redis = name === "redis" ? await startRedis() : undefined;
      await using receiver = await countingReceiver();
      await using relay = await startChild(testFolder(), {
        imports: [name],
        config: `storage: ${text ?? `redis({ url: "${redis?.url}" })`}, dataDir: "./data",`,
      });
      for (let n = 0; n < SUBSCRIPTIONS; n++) await relay.subscribe(`${receiver.origin}/${n}`, { timeoutMs: 30_000 });
      const ids = (publisher: number) => Array.from({ length: EVENTS }, (_, n) => `batch:${publisher}:${n}`);
      const answers = await Promise.all(
        Array.from({ length: PUBLISHERS }, (_, publisher) =>
          relay.publish(ids(publisher).map((id) => ({ type: "deposit:paid", keyId: "key_1", id, data: { id } }))),
        ),
      );
      const accepted = answers.flatMap(({ status }, n) => (status === 202 ? ids(n) : []));
      for (const { status, json } of answers)
        if (status !== 202) expect([status, json.retryAfter > 0]).toEqual([503, true]);
      expect(accepted.length).toBeGreaterThan(0);

      await until(() => receiver.counted.pairs >= accepted.length * SUBSCRIPTIONS);
      // Nothing more is under way: what is not delivered would still be pending.
      await until(async () => {
        const { json } = await relay.call("GET", "/api-keys/key_1/events?status=pending&limit=1");
        return json.data.length === 0;
      });
      expect(receiver.counted).toEqual({ pairs: accepted.length * SUBSCRIPTIONS, again: 0 });
      expect([...receiver.attempts.keys()].toSorted()).toEqual(accepted.toSorted());
      for (const [n, { status }] of answers.entries()) {
        if (status === 202) continue;
        for (const id of ids(n)) expect((await relay.call("GET", `/api-keys/key_1/events/${id}`)).status).toBe(404);
      }
    },
  );
});
