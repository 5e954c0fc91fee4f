/**
 * Every metric that the relay keeps, in one table. A room counts under the short name; Prometheus reads it as
 * `relay_<name>` (counters with `_total`). Label values come from small sets; beyond `series` of them they are
 * counted under `other`, so that 10,000 subscriptions make no more series than one.
 */
import type { MetricDeclaration } from "../../ports/plugin.ts";

export interface MetricRow extends Omit<MetricDeclaration, "name" | "type"> {
  readonly kind: MetricDeclaration["type"];
  /** Values of its one label that begin at zero: a rate does not see the first step of a new series. */
  readonly known?: readonly string[];
}

const FAST = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const SLOW = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const LONG = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 1_800];
/** A run either takes no time or meets its limit. */
const RUNS = [0.001, 0.01, 0.1];
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000];

type More = Pick<MetricRow, "known" | "series">;

const of =
  (kind: MetricRow["kind"]) =>
  (help: string, labels?: readonly string[], more?: More): MetricRow => ({ kind, help, labels, ...more });
const counter = of("counter");
const gauge = of("gauge");
const histogram = (help: string, buckets: readonly number[]): MetricRow => ({ kind: "histogram", help, buckets });

export const METRIC_TABLE: Readonly<Record<string, MetricRow>> = {
  accepted: counter("Events stored, by source", ["source"]),
  duplicates: counter("Events published again and answered from the first, by source", ["source"]),
  filtered: counter("Deliveries left out because of a subscription's filter"),
  schema_mismatches: counter(
    "Published events whose data did not match the schema of their type, by what was done",
    ["result"],
    { known: ["refused", "warned"], series: 2 },
  ),
  publish_refused: counter("Publications refused, by code", ["code"], {
    known: ["PROVIDER_BACKPRESSURE", "STORAGE_UNAVAILABLE", "STORAGE_FULL"],
    series: 24,
  }),
  spool_files: counter("Files dropped into a spool, by what became of them", ["result"]),
  source_redelivered: counter("Messages that a source got more than once, by source", ["source"]),
  source_dead_lettered: counter("Messages that a source set aside because they hold no valid event, by source", [
    "source",
  ]),
  deliveries: counter("Deliveries that came to an end, by outcome", ["outcome"], {
    known: ["delivered", "exhausted", "gone", "disabled", "aborted", "damaged"],
  }),
  deliveries_replayed: counter("Deliveries moved back to pending by a replay", ["by"], {
    known: ["api", "job"],
    series: 2,
  }),
  attempts: counter("Attempts, by status class or by the stage that failed", ["result"]),
  attempts_put_off: counter("Attempts put off, uncounted, because a connection of the config was away", ["transport"]),
  transforms: counter("Runs of transforms, by what became of them", ["result"], {
    known: ["made", "failed", "timeout", "memory", "died", "again", "unknown"],
    series: 7,
  }),
  breakers_opened: counter("Times that a subscription was paused for failing in a row"),
  subscriptions_disabled: counter("Subscriptions disabled by the relay, by reason", ["reason"], {
    known: ["endpoint_gone", "receiver_disabled", "endpoint_failing"],
  }),
  storage_faults: counter("Commits that failed, by fault", ["fault"], {
    known: ["unavailable", "full", "uncertain", "broken"],
    series: 4,
  }),
  durability_changes: counter(
    "Times that what an acknowledged commit is worth has changed, by what it is since",
    ["to"],
    { known: ["fsync", "replicated", "volatile"], series: 3 },
  ),
  records_damaged: counter("Stored records that were met damaged and not used, by kind", ["kind"], {
    known: ["event", "delivery", "attempts", "due", "subscription"],
    series: 5,
  }),
  plugin_faults: counter(
    "Failures of plug-ins that the relay kept from doing harm, by plug-in and by what was called",
    ["plugin", "call"],
    { series: 30 },
  ),
  spans: counter("Spans of traces, by result: exported or dropped", ["result"], { known: ["exported", "dropped"] }),
  limiter_verdicts: counter("Decisions of the limiter: passed, or the code of the 429", ["code"], {
    known: ["passed", "ABUSE_SUSPEND", "RATE_LIMIT_EXCEEDED", "BURST_EXCEEDED", "PROVIDER_BACKPRESSURE"],
    series: 5,
  }),
  http_requests: counter("HTTP requests answered, by route and status", ["route", "status"], { series: 145 }),

  accept_delay_seconds: counter(
    "Seconds by which the answers to publications ahead of their deliveries were delayed, in sum",
  ),
  accept_seconds: histogram("From a publication's arrival until it is stored", FAST),
  accept_to_first_attempt_seconds: histogram("From acceptance until the first attempt begins", LONG),
  attempt_seconds: histogram("One attempt, from name to reply", SLOW),
  transform_seconds: histogram("One run of a transform", RUNS),
  request_seconds: histogram("One HTTP request, from its head to the end of the answer", FAST),
  commit_seconds: histogram("One commit of the storage, waiting included", FAST),
  commit_changes: histogram("Changes of one commit", SIZES),
  batch_changes: histogram("Changes of all commits that the storage synced together, where it gathers them", SIZES),

  backlog: gauge("Deliveries waiting, as far as the queue knows or can count cheaply"),
  ordered_waiting: gauge("Deliveries of ordered subscriptions that wait for their turn"),
  ordered_held: gauge("Failed deliveries that hold up those behind them"),
  retention_lag_seconds: gauge("How far retention is behind what it may remove; 0 when it is done"),
  oldest_due_seconds: gauge("Age of the oldest delivery that is due, not paused and not under way"),
  subscriptions_paused: gauge(
    "Subscriptions whose deliveries this node puts off: their endpoint fails, or asked for time (Retry-After)",
    ["reason"],
  ),
  leases: gauge("Deliveries under way on this node"),
  ready: gauge("1 when this node is ready to serve"),
  parts_not_ready: gauge("Parts that /readyz shows as not ready, those that the relay can serve without too"),
  connection_away: gauge("1 while subscriptions are paused because a connection of the config is away", ["transport"]),
  source_lag_seconds: gauge("How far a source is behind its upstream", ["source"]),
  storage_bytes: gauge("Bytes that the storage uses, where it can tell cheaply"),
  disk_free_bytes: gauge("Bytes that are free where the data folder is"),
  event_loop_delay_seconds: gauge("Delay of the event loop since the last reading", ["quantile"], { series: 3 }),
  log_lines_dropped: gauge("Log lines lost because nobody read the log fast enough"),
  build_info: gauge("1, with the versions that run", ["version", "node"], { series: 1 }),
};

/** Buckets of a plug-in's histogram that names none. */
export const PLUGIN_BUCKETS: readonly number[] = SLOW;

/** The name under which Prometheus knows a metric. Plug-ins declare theirs by this name. */
export const promName = (name: string, row: MetricRow): string =>
  name.startsWith("relay_") ? name : `relay_${name}${row.kind === "counter" ? "_total" : ""}`;
