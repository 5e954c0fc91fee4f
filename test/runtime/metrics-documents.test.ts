// The dashboard and the alert rules name figures and labels that there are, in queries that Prometheus understands.
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { METRIC_TABLE, promName, type MetricRow } from "../../core/runtime/observability/metric-table.ts";
import { createMetrics } from "../../core/runtime/observability/index.ts";
import { findProgram, needs } from "../support/needs.ts";

const folder = resolve(import.meta.dirname, "../../docs/observe");
const alerts = await readFile(join(folder, "alerts.yaml"), "utf8");

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string }[];
}
const dashboard = JSON.parse(await readFile(join(folder, "grafana.json"), "utf8")) as {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string }[] };
};
const panels = dashboard.panels.filter(({ type }) => type !== "row");
/** As Grafana would send them. */
const queries = panels.flatMap(({ targets = [] }) =>
  targets.map(({ expr }) => expr.replaceAll("$__rate_interval", "5m").replaceAll(/\$(job|instance)\b/g, ".*")),
);
const expressions = [
  ...queries,
  ...alerts
    .split(/\n *- alert: /)
    .slice(1)
    .map((rule) => rule.slice(rule.indexOf("expr:"), rule.indexOf("labels:"))),
];

/** Every name that Prometheus reads → its figure; the process's own figures have no entry in the table. */
const known = new Map<string, MetricRow | undefined>();
for (const [name, figure] of Object.entries(METRIC_TABLE)) {
  const prom = promName(name, figure);
  if (figure.kind === "histogram") for (const end of ["_bucket", "_sum", "_count"]) known.set(prom + end, figure);
  else known.set(prom, figure);
}
const metrics = createMetrics();
for (const [, name = ""] of (await metrics.text()).matchAll(/^# TYPE ((?:process|nodejs)_\w+)/gm))
  known.set(name, undefined);
metrics.dispose();

// That of the sources, which they declare themselves.
known.set("relay_source_backlog", { kind: "gauge", help: "", labels: ["source"] } as unknown as MetricRow);

const named = (text: string): string[] => [...text.matchAll(/\b(?:relay|process|nodejs)_\w+/g)].map(([name]) => name);

describe("the dashboard and the alerts", () => {
  it("name figures that there are", () => {
    const unknown = expressions.flatMap(named).filter((name) => !known.has(name));
    expect(unknown).toEqual([]);
  });

  it("leave out no figure of the table on the dashboard", () => {
    const shown = new Set(queries.flatMap(named).map((name) => name.replace(/_(bucket|sum|count)$/, "")));
    const all = Object.entries(METRIC_TABLE).map(([name, figure]) => promName(name, figure));
    expect(all.filter((name) => !shown.has(name))).toEqual([]);
  });

  it("ask for labels that the figures have", () => {
    const wrong: string[] = [];
    for (const expression of expressions) {
      const labels = new Set([
        "job",
        "instance",
        "le",
        ...named(expression).flatMap((name) => known.get(name)?.labels ?? []),
      ]);
      const grouped = [...expression.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(/, */));
      const matched = [...expression.matchAll(/(\w+)(?:=~|!=|=|!~)"/g)].map(([, name = ""]) => name);
      wrong.push(
        ...[...grouped, ...matched]
          .filter((name) => name !== "" && !labels.has(name))
          .map((name) => `${name} in ${expression}`),
      );
    }
    expect(wrong).toEqual([]);
  });

  it("have panels of their own places and numbers", () => {
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const taken = new Set<string>();
    for (const { title, gridPos } of dashboard.panels) {
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.has(`${x} ${y}`), title).toBe(false);
          taken.add(`${x} ${y}`);
        }
      }
    }
  });

  it("tell, at each alert, what to do", () => {
    const rules = alerts.split(/\n *- alert: /).slice(1);
    expect(rules.length).toBeGreaterThan(10);
    for (const rule of rules) expect(rule).toMatch(/severity: (page|ticket|info)[^]*summary: ".+"[^]*todo: ".+"/);
  });

  it(
    "are understood by Prometheus, and alert when they must and not before",
    { timeout: 240_000 },
    async ({ skip }) => {
      const missing = needs("promtool");
      skip(missing !== undefined, missing);
      const promtool = (args: readonly string[]) => promisify(execFile)(findProgram("promtool") as string, args);
      const work = await mkdtemp(join(tmpdir(), "relay-promtool-"));
      try {
        await promtool(["check", "rules", "--lint-fatal", join(folder, "alerts.yaml")]);
        const recorded = queries.map((expr, i) => ({ record: `query:${i}`, expr }));
        // JSON is YAML.
        await writeFile(
          join(work, "queries.json"),
          JSON.stringify({ groups: [{ name: "dashboard", rules: recorded }] }),
        );
        await promtool(["check", "rules", "--lint=none", join(work, "queries.json")]);
        const labels = { job: "relay", instance: "a" };
        const series = (name: string, more: string, values: string) => ({
          series: `${name}{job="relay",instance="a"${more}}`,
          values,
        });
        const fires = (alertname: string, at: string, severity: string, more: Record<string, string> = {}) => ({
          alertname,
          eval_time: at,
          exp_alerts: [{ exp_labels: { severity, ...more } }],
        });
        const quiet = (alertname: string, at: string) => ({ alertname, eval_time: at, exp_alerts: [] });
        /** What Prometheus has read, and which alerts that raises when. */
        const cases: readonly (readonly [input: readonly object[], ...alerts: object[]])[] = [
          [[series("up", "", "1x5 0x10")], quiet("RelayDown", "6m"), fires("RelayDown", "9m", "page", labels)],
          [
            [series("relay_ready", "", "1x5 0x10")],
            quiet("RelayNotReady", "6m"),
            fires("RelayNotReady", "9m", "page", labels),
          ],
          [
            [
              series("relay_storage_faults_total", `,fault="full"`, "0x5 3x10"),
              series("relay_storage_faults_total", `,fault="broken"`, "0x15"),
            ],
            quiet("RelayStorageFaults", "5m"),
            fires("RelayStorageFaults", "8m", "page", { instance: "a", fault: "full" }),
          ],
          [
            [series("relay_records_damaged_total", `,kind="event"`, "0x5 1x90")],
            quiet("RelayRecordsDamaged", "4m"),
            fires("RelayRecordsDamaged", "10m", "ticket", { instance: "a", kind: "event" }),
            quiet("RelayRecordsDamaged", "80m"),
          ],
          [[series("relay_disk_free_bytes", "", "9e8x30")], fires("RelayDiskNearlyFull", "20m", "ticket", labels)],
          [[series("relay_disk_free_bytes", "", "1e11-1e8x600")], fires("RelayDiskNearlyFull", "8h", "ticket", labels)],
          [[series("relay_disk_free_bytes", "", "1e11x600")], quiet("RelayDiskNearlyFull", "8h")],
          [
            [series("relay_oldest_due_seconds", "", "10x10 301x20")],
            quiet("RelayDeliveriesLate", "15m"),
            fires("RelayDeliveriesLate", "25m", "page", labels),
          ],
          [
            [
              series("relay_attempts_total", `,result="5xx"`, "0+600x40"),
              series("relay_attempts_total", `,result="2xx"`, "0+60x40"),
            ],
            fires("RelayAttemptsFailing", "30m", "ticket", { instance: "a" }),
          ],
          [
            [
              series("relay_attempts_total", `,result="5xx"`, "0+60x40"),
              series("relay_attempts_total", `,result="2xx"`, "0+600x40"),
            ],
            quiet("RelayAttemptsFailing", "30m"),
          ],
          [
            [
              series("relay_publish_refused_total", `,code="VALIDATION_FAILED"`, "0+60x20"),
              series("relay_publish_refused_total", `,code="STORAGE_FULL"`, "0x10 0+5x10"),
            ],
            quiet("RelayPublishersRefused", "9m"),
            fires("RelayPublishersRefused", "19m", "page", { instance: "a", code: "STORAGE_FULL" }),
          ],
          [
            [
              series("relay_commit_seconds_bucket", `,le="1"`, "0+100x30"),
              series("relay_commit_seconds_bucket", `,le="2.5"`, "0+200x30"),
              series("relay_commit_seconds_bucket", `,le="+Inf"`, "0+200x30"),
            ],
            fires("RelayCommitsSlow", "25m", "ticket", { instance: "a" }),
          ],
          [
            [series("relay_parts_not_ready", "", "0x5 1x20"), series("relay_ready", "", "1x15 0x10")],
            quiet("RelayDegraded", "10m"),
            fires("RelayDegraded", "13m", "ticket", labels),
            quiet("RelayDegraded", "20m"),
          ],
          [
            [series("relay_backlog", "", "9000+100x90")],
            quiet("RelayBacklogGrows", "10m"),
            fires("RelayBacklogGrows", "60m", "ticket", labels),
          ],
          [[series("relay_backlog", "", "20000-100x90")], quiet("RelayBacklogGrows", "60m")],
          [
            [series("relay_deliveries_total", `,outcome="exhausted"`, "0x10 0+10x30")],
            quiet("RelayDeliveriesExhausted", "15m"),
            fires("RelayDeliveriesExhausted", "35m", "ticket", { instance: "a" }),
          ],
          [
            [series("relay_source_lag_seconds", `,source="postgres"`, "0x5 0+60x20")],
            quiet("RelaySourceBehind", "12m"),
            fires("RelaySourceBehind", "20m", "ticket", { ...labels, source: "postgres" }),
          ],
          [
            [series("relay_source_backlog", `,source="kafka"`, "0x5 9000+100x60")],
            quiet("RelaySourceBacklogGrows", "16m"),
            fires("RelaySourceBacklogGrows", "55m", "ticket", { ...labels, source: "kafka" }),
          ],
          [
            [series("relay_source_dead_lettered_total", `,source="kafka"`, "0x5 1x20")],
            quiet("RelaySourceDeadLetters", "4m"),
            fires("RelaySourceDeadLetters", "10m", "ticket", { instance: "a", source: "kafka" }),
          ],
          [
            [series("relay_event_loop_delay_seconds", `,quantile="0.99"`, "0.1x5 0.6x20")],
            quiet("RelayEventLoopBusy", "12m"),
            fires("RelayEventLoopBusy", "20m", "ticket", { ...labels, quantile: "0.99" }),
          ],
          [
            [series("relay_subscriptions_disabled_total", `,reason="endpoint_gone"`, "0x5 1x20")],
            quiet("RelaySubscriptionsDisabled", "4m"),
            fires("RelaySubscriptionsDisabled", "10m", "info", { instance: "a", reason: "endpoint_gone" }),
          ],
          [
            [series("relay_limiter_verdicts_total", `,code="ABUSE_SUSPEND"`, "0x5 3x20")],
            quiet("RelayCallersSuspended", "4m"),
            fires("RelayCallersSuspended", "10m", "info", { instance: "a" }),
          ],
          [
            [series("relay_log_lines_dropped", "", "0x5 7x20")],
            quiet("RelayLogLinesLost", "4m"),
            fires("RelayLogLinesLost", "10m", "ticket", labels),
          ],
          [
            [series("relay_spans_total", `,result="dropped"`, "0x5 9x20")],
            quiet("RelaySpansDropped", "4m"),
            fires("RelaySpansDropped", "10m", "info", { instance: "a" }),
          ],
        ];
        const fired = cases.flatMap(([, ...wanted]) => wanted.map((one) => JSON.stringify(one)));
        const untested = [...alerts.matchAll(/- alert: (\w+)/g)].filter(
          ([, name]) => !fired.some((one) => one.includes(`"${name}"`) && one.includes("exp_labels")),
        );
        expect(untested).toEqual([]);
        const tests = cases.map(([input, ...wanted]) => ({
          interval: "1m",
          input_series: input,
          alert_rule_test: wanted,
        }));
        // promtool compares annotations as well, which name values: here only which alert fires, when, and for whom.
        await writeFile(join(work, "rules.yaml"), alerts.replaceAll(/^ +(?:annotations|summary|todo):.*\n/gm, ""));
        await writeFile(join(work, "tests.json"), JSON.stringify({ rule_files: ["rules.yaml"], tests }));
        await promtool(["test", "rules", join(work, "tests.json")]);
      } finally {
        await rm(work, { recursive: true });
      }
    },
  );
});
