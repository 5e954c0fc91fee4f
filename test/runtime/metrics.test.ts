// /metrics of a whole relay: where it is served, to whom, that every figure is fed, and that it stays small.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { http, memory, spool } from "../../config/index.ts";
import { StorageError } from "../../core/model/errors.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { METRIC_TABLE, promName } from "../../core/runtime/observability/metric-table.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { watchedStorage } from "../../core/runtime/storage-watch.ts";
import { startReceiver } from "../support/receiver.ts";
import { freePort } from "../../tools/free-port.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";

const TOKEN = "metrics-token-of-the-tests";
const bearer = { authorization: `Bearer ${TOKEN}` };

const read = async (relay: TestRelay): Promise<string> =>
  (await relay.call("GET", "/metrics", { token: null, headers: bearer })).text;
const value = (text: string, series: string): number =>
  Number(
    text
      .split("\n")
      .find((line) => line.startsWith(`${series} `))
      ?.slice(series.length + 1) ?? Number.NaN,
  );

async function subscribe(relay: TestRelay, key: string, url: string, more: object = {}): Promise<void> {
  const made = await relay.call("POST", `/api-keys/${key}/webhooks`, { body: { url, events: ["*"], ...more } });
  expect(made.status).toBe(201);
}

describe("where figures are served", () => {
  it("nowhere, when neither token nor port is set", async () => {
    await using relay = await startRelay();
    expect((await relay.call("GET", "/metrics")).status).toBe(404);
  });

  it("on the main server with a token, and to nobody else", async () => {
    await using relay = await startRelay({ metrics: { token: TOKEN } });
    const good = await relay.call("GET", "/metrics", { token: null, headers: bearer });
    expect(good.status).toBe(200);
    expect(good.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
    const wrong: Record<string, string>[] = [
      {},
      { authorization: "Bearer wrong" },
      { authorization: `Basic ${TOKEN}` },
      { authorization: TOKEN },
    ];
    for (const headers of wrong) {
      const refused = await relay.call("GET", "/metrics", { token: null, headers });
      expect(refused.status).toBe(401);
      expect(refused.text).not.toContain("relay_");
    }
    // An access token is no metrics token.
    expect((await relay.call("GET", "/metrics")).status).toBe(401);
    expect((await relay.call("POST", "/metrics", { token: null, headers: bearer })).status).toBe(405);
  });

  it("on a port of its own, where nothing else is; the main server then has none", async () => {
    const port = await freePort();
    const relay = await startRelay({ metrics: { port } });
    await using _ = relay;
    const own = `http://127.0.0.1:${port}`;
    const answer = await fetch(`${own}/metrics`);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain("relay_build_info{");
    expect((await fetch(`${own}/healthz`)).status).toBe(404);
    expect((await fetch(`${own}/events`, { method: "POST" })).status).toBe(404);
    expect((await relay.call("GET", "/metrics")).status).toBe(404);
    await relay.stop();
    await expect(fetch(`${own}/metrics`)).rejects.toThrow();
  });

  it("on its own port to the token's holder alone, when both are set", async () => {
    const port = await freePort();
    await using _ = await startRelay({ metrics: { port, token: TOKEN } });
    expect((await fetch(`http://127.0.0.1:${port}/metrics`)).status).toBe(401);
    expect((await fetch(`http://127.0.0.1:${port}/metrics`, { headers: bearer })).status).toBe(200);
  });
});

describe("the figures of a working relay", () => {
  it("are all fed", { timeout: 240_000 }, async () => {
    const folder = await mkdtemp(join(tmpdir(), "relay-figures-"));
    await using receiver = await startReceiver({
      script: (request) => (request.path === "/gone" ? 410 : request.path === "/bad" ? 500 : 200),
    });
    const relay = await startRelay({
      metrics: { token: TOKEN },
      sources: [http(), spool({ dir: join(folder, "spool"), rescanMs: 100 })],
      limits: { "GET /api-keys/{keyId}/webhooks": { perMinute: 9, per5s: 2 } },
      retry: { attempts: 2, firstDelayMs: 10, factor: 1, maxDelayMs: 10 },
      health: { breakerAfter: 2, breakerPauseMs: 1, breakerMaxPauseMs: 1, disableAfterMs: 60_000 },
      events: ["a:b", "a:c"],
    });
    await using _ = relay;
    const filter = { path: "type", equals: "a:b" };
    for (const path of ["/good", "/gone"]) await subscribe(relay, `key_${path.slice(1)}`, receiver.url(path));
    await subscribe(relay, "key_bad", receiver.url("/bad"), { filter });
    expect((await relay.publish({ type: "a:c", keyId: "key_bad", data: 1 })).status).toBe(202);
    for (const key of ["key_good", "key_bad", "key_gone"]) {
      expect((await relay.publish({ type: "a:b", keyId: key, data: 1, id: "one" })).status).toBe(202);
    }
    expect((await relay.publish({ type: "a:b", keyId: "key_good", data: 1, id: "one" })).json.data.duplicate).toBe(
      true,
    );
    expect((await relay.publish({ type: "x:y", keyId: "key_good", data: 1 })).status).toBe(400);
    for (let i = 0; i < 3; i++) await relay.call("GET", "/api-keys/key_good/webhooks");
    await writeFile(join(folder, "spool", "a.ndjson"), `{"type":"a:c","keyId":"key_good","data":2}\n`);
    await receiver.waitFor(5);
    const settled = async (): Promise<string> => {
      for (;;) {
        const text = await read(relay);
        const done = value(text, 'relay_deliveries_total{outcome="delivered"}') === 2;
        if (done && value(text, 'relay_deliveries_total{outcome="exhausted"}') === 1) return text;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    await settled();
    await relay.call("POST", "/api-keys/key_bad/events/one/replay");
    await receiver.waitFor(6);
    const fed = (text: string, name: string): boolean => {
      const figure = METRIC_TABLE[name];
      if (figure === undefined) return false;
      const prom = promName(name, figure);
      const count = figure.kind === "histogram" ? `${prom}_count` : prom;
      return text.split("\n").some((line) => line.startsWith(count) && Number(line.slice(line.lastIndexOf(" "))) > 0);
    };
    // Zero is what these say of a relay that is well, or has no such part.
    const atRest = [
      "accept_delay_seconds backlog oldest_due_seconds leases subscriptions_paused connection_away",
      "log_lines_dropped source_lag_seconds source_redelivered source_dead_lettered storage_faults spans",
      "durability_changes records_damaged retention_lag_seconds event_loop_delay_seconds plugin_faults",
      "parts_not_ready attempts_put_off transforms ordered_waiting ordered_held transform_seconds schema_mismatches",
    ].flatMap((list) => list.split(" "));
    let text = "";
    // The spool counts a file when it has put it away, after the file's event is delivered.
    const unfed = async (): Promise<string[]> => {
      text = await read(relay);
      return Object.keys(METRIC_TABLE).filter((name) => !fed(text, name) && !atRest.includes(name));
    };
    await expect.poll(unfed).toEqual([]);
    expect(text).toContain('relay_source_lag_seconds{source="spool"} 0');
    expect(value(text, "relay_ready")).toBe(1);
    expect(value(text, 'relay_limiter_verdicts_total{code="BURST_EXCEEDED"}')).toBe(1);
    await rm(folder, { recursive: true });
  });

  it("stay within 500 series with 600 subscriptions, each of a key of its own", async () => {
    const relay = await startRelay({
      metrics: { token: TOKEN },
      storage: memory(),
      retry: { attempts: 1 },
    });
    await using _ = relay;
    const token = await relay.token();
    let next = 0;
    const worker = async (): Promise<void> => {
      for (let i = next++; i < 600; i = next++) {
        const body = { url: `https://127.0.0.1:9/${i}`, events: ["a:b"] };
        const made = await relay.call("POST", `/api-keys/key_${i}/webhooks`, { token, body });
        if (made.status !== 201) throw new Error(made.text);
      }
    };
    await Promise.all(Array.from({ length: 16 }, worker));
    for (let key = 0; key < 600; key += 60) await relay.publish({ type: "a:b", keyId: `key_${key}`, data: key });
    const series = (await read(relay)).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    expect(series.length).toBeLessThanOrEqual(500);
    expect(series.length).toBeGreaterThan(100);
  });
});

describe("the watched storage", () => {
  it("counts commits by how they end, and passes everything else on, of classes too", async () => {
    class Odd {
      #rows = new Map<string, string>();
      readonly name = "odd";
      queue = { settle: () => Promise.resolve(), depth: () => Promise.resolve({ waiting: 0, leased: 0 }) };
      async getItem(key: string): Promise<string | undefined> {
        return this.#rows.get(key);
      }
      async commit(changes: readonly { readonly key: string; readonly value: string }[]): Promise<void> {
        for (const { key, value: text } of changes) {
          if (key === "full") throw new StorageError("full", "no space");
          this.#rows.set(key, text);
        }
      }
      get durability(): string {
        return this.#rows.size > 0 ? "fsync" : "volatile";
      }
    }
    const seen: string[] = [];
    const metrics = {
      count: (name: string, labels?: object) => void seen.push(`${name} ${JSON.stringify(labels)}`),
      gauge: () => undefined,
      observe: (name: string, amount: number) => void seen.push(name === "commit_changes" ? `${name} ${amount}` : name),
    };
    const { storage, trouble } = watchedStorage(new Odd() as unknown as Storage, systemClock(), metrics);
    expect(storage.durability).toBe("volatile");
    await storage.commit([{ op: "put", key: "a", value: "1" }]);
    expect(await storage.getItem("a")).toBe("1");
    expect(storage.durability).toBe("fsync");
    expect(trouble()).toBeUndefined();
    await expect(storage.commit([{ op: "put", key: "full", value: "1" }])).rejects.toThrow("no space");
    expect(trouble()).toBe("the last commit failed: full");
    await storage.queue.settle({} as never, [
      { op: "delete", key: "a" },
      { op: "delete", key: "b" },
    ]);
    expect(trouble()).toBeUndefined();
    expect(await storage.queue.depth()).toEqual({ waiting: 0, leased: 0 });
    expect(seen).toEqual([
      "commit_seconds",
      "commit_changes 1",
      'storage_faults {"fault":"full"}',
      "commit_seconds",
      "commit_changes 2",
    ]);
  });
});
