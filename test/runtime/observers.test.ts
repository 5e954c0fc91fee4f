import { execFile } from "node:child_process";
import fs from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createLog, createMetrics } from "../../core/runtime/observability/index.ts";
import { METRIC_TABLE, promName } from "../../core/runtime/observability/metric-table.ts";
import { turn } from "../support/clock.ts";

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "relay-log-"))));
afterAll(() => rm(folder, { recursive: true, force: true }));

const lines = async (file: string): Promise<Record<string, unknown>[]> =>
  (await readFile(file, "utf8"))
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe("the log", () => {
  it("writes allow-listed fields, names the others without their values, and masks what looks like a secret", async () => {
    const file = join(folder, "fields");
    const log = createLog("info", { dest: file });
    log.info("attempt", { eventId: "evt_1", attempt: 1, duplicate: false, reason: undefined, password: "hunter2" });
    log.error("odd", {
      error: `sent whsec_${"a".repeat(43)}= with Bearer abc.def and eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln`,
    });
    log.info("address", { url: "https://a.example/hook?token=hunter2#x" });
    log.warn("hostile", { error: 'a"b\nc\u001b[31m', detail: "x".repeat(10_000) });
    await log.flush();
    const [first, second, address, third] = await lines(file);
    expect(first).toMatchObject({ level: "info", msg: "attempt", eventId: "evt_1", attempt: 1, duplicate: false });
    expect(first).toMatchObject({
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      omitted: "password",
    });
    expect(second?.["error"]).toBe("sent [masked] with [masked] and [masked]");
    expect(third?.["error"]).toBe('a"b\nc\u001b[31m');
    expect(address?.["url"]).toBe("https://a.example/hook");
    expect(String(third?.["detail"]).length).toBe(501);
    const text = await readFile(file, "utf8");
    expect(text).not.toContain("hunter2");
    expect(text).not.toContain("\u001b");
  });

  it("masks what is hidden before it cuts, and writes an object that a plug-in passes as one text", async () => {
    const file = join(folder, "hidden");
    const key = "k".repeat(600);
    const log = createLog("info", { dest: file });
    log.hideWith((text) => text.replaceAll(key, "[masked]"));
    const token = `eyJ${"h".repeat(40)}.eyJ${"p".repeat(600)}.c2ln`;
    log.warn(`no key: ${key}`, { error: `no key: ${key}`, detail: `no token: ${token}` });
    const error = Object.assign(new Error("refused"), { headers: { authorization: "Basic hunter2" } });
    log.warn("failed", { error, result: { password: "hunter2" } } as never);
    await log.flush();
    const [first, second] = await lines(file);
    expect(first).toMatchObject({
      ...{ msg: "no key: [masked]", error: "no key: [masked]", detail: "no token: [masked]" },
    });
    expect(second).toMatchObject({ error: "Error: refused", result: "[object Object]" });
  });

  it("writes JSON whatever the values are, in the order of the fields", async () => {
    const file = join(folder, "any");
    const log = createLog("info", { dest: file });
    const value = fc.oneof(fc.string({ unit: "binary", maxLength: 30 }), fc.double(), fc.integer(), fc.boolean());
    const names = ["eventId", "attempt", "error", "durationMs", "password"] as const;
    const fields = fc.dictionary(fc.constantFrom(...names), value, { noNullPrototype: true });
    const all = fc.sample(fc.tuple(fc.string({ unit: "binary", maxLength: 30 }), fields), 500);
    for (const [message, about] of all) log.info(message, about);
    await log.flush();
    const written = (await lines(file)).map((line) => JSON.stringify({ ...line, time: undefined }));
    const expected = all.map(([msg, { password, ...rest }]) =>
      JSON.stringify({ level: "info", ...rest, omitted: password === undefined ? undefined : "password", msg }),
    );
    expect(written).toEqual(expected);
  });

  it("keeps to its level, which can be changed on the way", async () => {
    const file = join(folder, "level");
    const log = createLog("warn", { dest: file });
    log.info("no");
    log.warn("yes");
    log.setLevel("debug");
    log.debug("now");
    log.setLevel("silent");
    log.error("never");
    await log.flush();
    expect((await lines(file)).map((line) => line["msg"])).toEqual(["yes", "now"]);
  });

  it("loses no line when the process exits at once", async () => {
    const file = join(folder, "exit");
    const module = resolve(import.meta.dirname, "../../core/runtime/observability/index.ts");
    const code = `const { createLog } = await import(${JSON.stringify(module)});
      const log = createLog("info", { dest: ${JSON.stringify(file)} });
      for (let i = 0; i < 1000; i++) log.info("line", { count: i });
      process.exit(3);`;
    await expect(promisify(execFile)(process.execPath, ["--input-type=module", "-e", code])).rejects.toMatchObject({
      code: 3,
    });
    expect((await lines(file)).map((line) => line["count"])).toEqual(Array.from({ length: 1000 }, (_, i) => i));
  });

  it("is flushed when its lines are written, not when their writing has begun", async () => {
    const file = join(folder, "flush");
    const log = createLog("info", { dest: file });
    const asked = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const write = fs.write as (...args: readonly unknown[]) => void;
    using _slow = vi.spyOn(fs, "write").mockImplementation(((...args: readonly unknown[]) => {
      asked.resolve();
      void go.promise.then(() => write(...args));
    }) as typeof fs.write);
    log.info("line");
    let flushed = false;
    const done = log.flush().then(() => (flushed = true));
    await asked.promise;
    await turn();
    expect(flushed).toBe(false);
    go.resolve();
    await done;
    expect(await lines(file)).toHaveLength(1);
  });

  it("writes readable lines for people, without control characters", async () => {
    const file = join(folder, "people");
    const log = createLog("info", { dest: file, readable: true });
    log.info("attempt", { eventId: "evt_1", error: "a\u001b[2Jb" });
    await log.flush();
    expect(await readFile(file, "utf8")).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3}Z info {2}attempt eventId=evt_1 error="a\\u001b\[2Jb"\n$/,
    );
  });
});

describe("the figures", () => {
  it("are read out in Prometheus' format, with the process's own", async () => {
    const metrics = createMetrics();
    metrics.count("accepted", { source: "http" }, 3);
    metrics.observe("attempt_seconds", 0.02);
    metrics.observe("attempt_seconds", 100);
    metrics.onRead(() => metrics.gauge("backlog", 7));
    metrics.onRead(() => Promise.reject(new Error("not now")));
    const text = await metrics.text();
    metrics.dispose();
    expect(text).toContain('relay_accepted_total{source="http"} 3\n');
    expect(text).toContain("# TYPE relay_attempt_seconds histogram\n");
    expect(text).toContain('relay_attempt_seconds_bucket{le="0.01"} 0\n');
    expect(text).toContain('relay_attempt_seconds_bucket{le="0.025"} 1\n');
    expect(text).toContain('relay_attempt_seconds_bucket{le="+Inf"} 2\n');
    expect(text).toContain("relay_attempt_seconds_count 2\n");
    expect(text).toContain("relay_attempt_seconds_sum 100.02\n");
    expect(text).toContain("relay_backlog 7\n");
    expect(text).toMatch(/relay_event_loop_delay_seconds\{quantile="0\.99"\} \d/);
    expect(text).toMatch(/process_resident_memory_bytes \d/);
  });

  it("say that an event loop without work is not late", { timeout: 60_000 }, async () => {
    const metrics = createMetrics();
    const delay = async (): Promise<number> =>
      Number(/event_loop_delay_seconds\{quantile="0\.5"\} (\S+)/.exec(await metrics.text())?.[1]);
    // A busy machine may be late now and then.
    await expect
      .poll(
        async () => {
          await delay();
          await new Promise((done) => setTimeout(done, 500));
          return await delay();
        },
        { timeout: 55_000 },
      )
      .toBeLessThan(0.01);
    metrics.dispose();
  });

  it("ignore unknown names, wrong kinds and numbers that are none", async () => {
    const metrics = createMetrics();
    metrics.count("nonsense", { a: "b" });
    metrics.count("backlog");
    metrics.count("breakers_opened", undefined, -1);
    metrics.count("breakers_opened", undefined, Infinity);
    metrics.gauge("deliveries", 5, { outcome: "delivered" });
    metrics.observe("attempt_seconds", Number.NaN);
    const text = await metrics.text();
    metrics.dispose();
    expect(text).not.toContain("nonsense");
    expect(text).toContain("relay_backlog 0\n");
    expect(text).toContain("relay_breakers_opened_total 0\n");
    expect(text).toContain('relay_deliveries_total{outcome="delivered"} 0\n');
    expect(text).toContain("relay_attempt_seconds_count 0\n");
  });

  it("stay under 600 series, whatever the labels are", async () => {
    const metrics = createMetrics();
    for (let i = 0; i < 10_000; i++) {
      for (const [name, { kind, labels }] of Object.entries(METRIC_TABLE)) {
        const values = Object.fromEntries((labels ?? []).map((label) => [label, `value ${i}`]));
        if (kind === "counter") metrics.count(name, values);
        else if (kind === "gauge") metrics.gauge(name, i, values);
        else metrics.observe(name, i / 1000, values);
      }
    }
    const series = (await metrics.text()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    metrics.dispose();
    expect(series.length).toBeLessThanOrEqual(600);
    expect(series).toContainEqual(expect.stringMatching(/^relay_deliveries_total\{outcome="other"\} 99\d\d$/));
  });

  it("have names as Prometheus wants them", () => {
    for (const [name, figure] of Object.entries(METRIC_TABLE)) {
      expect(promName(name, figure)).toMatch(/^relay_[a-z_]+$/);
      if (figure.kind === "histogram")
        expect(figure.buckets).toEqual([...(figure.buckets ?? [])].sort((a, b) => a - b));
    }
  });
});
