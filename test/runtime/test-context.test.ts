// The context that strangers test their plug-ins with behaves as the relay's own.
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { secretFrom } from "../../core/model/secret-option.ts";
import { isLater, Problem } from "../../core/model/problem.ts";
import { systemClock, testContext } from "../conformance/index.ts";
import { startReceiver } from "../support/receiver.ts";

const plugin = { kind: "source", name: "mine" } as const;

describe("the test context", () => {
  it("has a clock to move, a storage of its own, keys, secrets, and a folder that is removed", async () => {
    let folder: string;
    {
      const secrets = { url: secretFrom({ env: "URL" }) };
      await using ctx = await testContext({ ...plugin, secrets }, { env: { URL: "a-secret-value" } });
      folder = ctx.dataDir;
      expect(existsSync(folder)).toBe(true);
      expect(ctx.secret("url")).toBe("a-secret-value");
      const began = ctx.clock.monotonic();
      const slept = ctx.clock.sleep(ctx.clock.now() + 60_000);
      await ctx.clock.advance(60_000);
      await slept;
      expect(ctx.clock.monotonic() - began).toBe(60_000);
      await ctx.storage.commit([{ op: "put", key: "at", value: "7" }]);
      expect(await ctx.storage.getItem("at")).toBe("7");
      expect(await ctx.storage.range("")).toEqual([{ key: "at", value: "7" }]);
      expect(ctx.keys.open(ctx.keys.seal("text", "place"), "place")).toBe("text");
      expect(() => void ((ctx.log as { info: unknown }).info = undefined)).toThrow();
    }
    expect(existsSync(folder)).toBe(false);
  });

  it("shows what was logged and counted, and refuses a metric that nobody declares", async () => {
    const metrics = [{ name: "relay_plugin_x_total", type: "counter", help: "X" }] as const;
    await using ctx = await testContext({ ...plugin, metrics });
    ctx.log.warn("a line", { count: 1 });
    ctx.metrics.count("relay_plugin_x_total", { queue: "a" });
    ctx.metrics.count("relay_plugin_x_total", { queue: "a" }, 2);
    ctx.metrics.gauge("source_lag_seconds", 4, { source: "mine" });
    expect(ctx.lines).toEqual([{ level: "warn", message: "a line", fields: { count: 1 } }]);
    expect(Object.fromEntries(ctx.figures)).toEqual({
      'relay_plugin_x_total{queue="a"}': 3,
      'source_lag_seconds{source="mine"}': 4,
    });
    expect(() => ctx.metrics.count("relay_plugin_y_total")).toThrow("nobody declares");
  });

  it("connects and fetches over real TLS, without a guard", async () => {
    await using receiver = await startReceiver();
    await using ctx = await testContext(plugin, { clock: systemClock(), ca: receiver.ca });
    expect((await ctx.fetch(receiver.url("/x"), { method: "POST", body: "{}" })).status).toBe(200);
    expect(receiver.requests).toHaveLength(1);
    await using stranger = await testContext(plugin, { clock: systemClock() });
    await expect(stranger.fetch(receiver.url("/x"))).rejects.toThrow();
  });
});

describe("what accept throws", () => {
  it("asks for another try, or for a mend", () => {
    const later = [
      "PROVIDER_BACKPRESSURE",
      "STORAGE_UNAVAILABLE",
      "STORAGE_FULL",
      "SHUTTING_DOWN",
      "INTERNAL_ERROR",
    ] as const;
    const mend = [
      "INVALID_JSON",
      "VALIDATION_FAILED",
      "PAYLOAD_TOO_LARGE",
      "NOT_FOUND",
      "IDEMPOTENCY_MISMATCH",
    ] as const;
    for (const code of later) expect(isLater(new Problem(code, "x")), code).toBe(true);
    for (const code of mend) expect(isLater(new Problem(code, "x")), code).toBe(false);
    expect(isLater(new Error("unforeseen"))).toBe(true);
  });
});
