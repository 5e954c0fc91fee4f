// Plug-ins declare metrics of their own: checked with the config, bounded, and shown by /metrics from the start.
import { describe, expect, it } from "vitest";
import { metricProblems } from "../../config/plugin-problems.ts";
import type { MetricDeclaration } from "../../core/ports/plugin.ts";
import { ConfigError } from "../../config/problems.ts";
import { resolvePlan } from "../../config/validate.ts";
import { createMetrics } from "../../core/runtime/observability/index.ts";
import { sourcePlugin } from "../support/plugins.ts";
import { startRelay } from "../support/relay.ts";

const messages: MetricDeclaration = {
  name: "relay_plugin_mqtt_messages_total",
  type: "counter",
  help: "Messages read, by topic",
  labels: ["topic"],
  series: 2,
};

describe("metrics of a plug-in", () => {
  it("are counted by their whole names, and beyond the bound under `other`", async () => {
    const plugin = sourcePlugin(
      "mqtt",
      {},
      { metrics: [messages, { ...messages, name: "relay_source_reads_total", labels: [] }] },
    );
    await using relay = await startRelay({
      metrics: { token: "m" },
      sources: [
        {
          ...plugin,
          setup(ctx) {
            for (const topic of ["a", "b", "c", "d", "a"]) ctx.metrics.count(messages.name, { topic });
            ctx.metrics.count("relay_plugin_unknown_total");
            return plugin.setup(ctx);
          },
        },
      ],
    });
    const { text } = await relay.call("GET", "/metrics", { headers: { authorization: "Bearer m" } });
    const lines = text
      .split("\n")
      .filter((line) => line.includes("relay_plugin_mqtt_") || line.includes("source_reads"));
    expect(lines).toEqual([
      "# HELP relay_plugin_mqtt_messages_total Messages read, by topic",
      "# TYPE relay_plugin_mqtt_messages_total counter",
      'relay_plugin_mqtt_messages_total{topic="a"} 2',
      'relay_plugin_mqtt_messages_total{topic="b"} 1',
      'relay_plugin_mqtt_messages_total{topic="other"} 2',
      "# HELP relay_source_reads_total Messages read, by topic",
      "# TYPE relay_source_reads_total counter",
      "relay_source_reads_total 0",
    ]);
  });

  it("have buckets, and take no value that is no number", async () => {
    const metrics = createMetrics();
    metrics.declare([
      { name: "relay_plugin_x_seconds", type: "histogram", help: "h", buckets: [1, 2] },
      { name: "relay_plugin_x", type: "gauge", help: "g" },
      { ...messages, name: "relay_plugin_x_total" },
    ]);
    metrics.observe("relay_plugin_x_seconds", 1.5);
    metrics.observe("relay_plugin_x_seconds", "1" as never);
    metrics.gauge("relay_plugin_x", "1\nrelay_ready 0" as never);
    metrics.count("relay_plugin_x_total", { topic: 7 as never }, "5" as never);
    metrics.count("relay_plugin_x_total", { topic: `${"é\n".repeat(1_000)}` });
    const text = await metrics.text();
    metrics.dispose();
    expect(text).toContain('relay_plugin_x_seconds_bucket{le="2"} 1\n');
    expect(text).toContain("relay_plugin_x_seconds_count 1\n");
    expect(text).toContain("relay_plugin_x 0\n");
    expect(text).not.toContain('topic="7"');
    expect(text.split("\n").every((line) => line.length < 500)).toBe(true);
  });

  it("are problems of the config where their names, types or labels are wrong", () => {
    const of = (over: Partial<Record<keyof MetricDeclaration, unknown>>): readonly string[] =>
      metricProblems("source", [{ ...messages, ...over } as MetricDeclaration]).map(({ path }) => path);
    expect(of({})).toEqual([]);
    expect(of({ name: "relay_source_x_total" })).toEqual([]);
    expect(of({ name: "relay_transport_x_total" })).toEqual(["[0].name"]);
    expect(of({ name: "accepted" })).toEqual(["[0].name", "[0].name"]);
    expect(of({ name: "relay_plugin_X_total" })).toEqual(["[0].name"]);
    expect(of({ type: "summary" })).toEqual(["[0].type"]);
    expect(of({ help: "" })).toEqual(["[0].help"]);
    expect(of({ labels: ["le"] })).toEqual(["[0].labels"]);
    expect(of({ buckets: [1] })).toEqual(["[0].buckets"]);
    expect(of({ type: "histogram", name: "relay_plugin_x", buckets: [2, 1] })).toEqual(["[0].buckets"]);
    expect(of({ series: 1_000 })).toEqual(["[0].series"]);
  });

  it("are problems where two plug-ins mean different things by one name, or take one of the relay's", () => {
    const frame = { configDir: "/", cwd: "/", settings: {}, env: {} };
    const one = sourcePlugin("one", {}, { metrics: [messages] });
    const two = sourcePlugin("two", {}, { metrics: [messages] });
    expect(resolvePlan({ sources: [one, two] }, frame).sources).toHaveLength(2);
    const other = sourcePlugin("other", {}, { metrics: [{ ...messages, labels: ["queue"] }] });
    const own = sourcePlugin(
      "own",
      {},
      {
        metrics: [{ name: "relay_source_lag_seconds", type: "gauge", help: "h", labels: ["source"] }],
      },
    );
    const refused = (): unknown => resolvePlan({ sources: [one, other, own] }, frame);
    expect(refused).toThrow(ConfigError);
    expect(refused).toThrow(
      /sources\[1\]\.metrics\[0\]: .* another way[^]*sources\[2\]\.metrics\[0\]\.name: is a metric of/,
    );
  });
});
