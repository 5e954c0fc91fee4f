/**
 * Every metric that the relay keeps, in one table. A room counts under the short name; Prometheus reads it as
 * `relay_<name>` (counters with `_total`). Label values come from small sets; beyond `series` of them they are
 * counted under `other`, so that 10,000 subscriptions make no more series than one.
 */
export interface MetricRow {
  readonly kind: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels?: readonly string[];
  /** Values of its one label that begin at zero: a rate does not see the first step of a new series. */
  readonly known?: readonly string[];
  /** Upper bounds of a histogram, ascending. */
  readonly buckets?: readonly number[];
  /** Most label sets of its own. @default 16 */
  readonly series?: number;
}

const FAST = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const SLOW = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const LONG = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 1_800];
/** A run either takes no time or meets its limit. */
const RUNS = [0.001, 0.01, 0.1];
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000];

export const METRIC_TABLE: Readonly<Record<string, MetricRow>> = {
  accepted: { kind: "counter", help: "Events stored, by source", labels: ["source"] },
  duplicates: {
    kind: "counter",
    help: "Events published again and answered from the first, by source",
    labels: ["source"],
  },
  filtered: { kind: "counter", help: "Deliveries left out because of a subscription's filter" },
  schema_mismatches: {
    kind: "counter",
    help: "Published events whose data did not match the schema of their type, by what was done",
    labels: ["result"],
    known: ["refused", "warned"],
    series: 2,
  },
  publish_refused: {
    kind: "counter",
    help: "Publications refused, by code",
    labels: ["code"],
    known: ["PROVIDER_BACKPRESSURE", "STORAGE_UNAVAILABLE", "STORAGE_FULL"],
    series: 24,
  },
  spool_files: { kind: "counter", help: "Files dropped into a spool, by what became of them", labels: ["result"] },
  source_redelivered: {
    kind: "counter",
    help: "Messages that a source got more than once, by source",
    labels: ["source"],
  },
  source_dead_lettered: {
    kind: "counter",
    help: "Messages that a source set aside because they hold no valid event, by source",
    labels: ["source"],
  },
  deliveries: {
    kind: "counter",
    help: "Deliveries that came to an end, by outcome",
    labels: ["outcome"],
    known: ["delivered", "exhausted", "gone", "damaged"],
  },
  deliveries_replayed: {
    kind: "counter",
    help: "Deliveries moved back to pending by a replay",
    labels: ["by"],
    known: ["api", "job"],
    series: 2,
  },
  attempts: {
    kind: "counter",
    help: "Attempts, by status class or by the stage that failed",
    labels: ["result"],
  },
  attempts_put_off: {
    kind: "counter",
    help: "Attempts put off, uncounted, because a connection of the config was away",
    labels: ["transport"],
  },
  transforms: {
    kind: "counter",
    help: "Runs of transforms, by what became of them",
    labels: ["result"],
    known: ["made", "failed", "timeout", "memory", "died", "again", "unknown"],
    series: 7,
  },
  breakers_opened: { kind: "counter", help: "Times that a subscription was paused for failing in a row" },
  subscriptions_disabled: {
    kind: "counter",
    help: "Subscriptions disabled by the relay, by reason",
    labels: ["reason"],
    known: ["endpoint_gone", "endpoint_failing"],
  },
  storage_faults: {
    kind: "counter",
    help: "Commits that failed, by fault",
    labels: ["fault"],
    known: ["unavailable", "full", "uncertain", "broken"],
    series: 4,
  },
  durability_changes: {
    kind: "counter",
    help: "Times that what an acknowledged commit is worth has changed, by what it is since",
    labels: ["to"],
    known: ["fsync", "replicated", "volatile"],
    series: 3,
  },
  records_damaged: {
    kind: "counter",
    help: "Stored records that were met damaged and not used, by kind",
    labels: ["kind"],
    known: ["event", "delivery", "attempts", "due", "subscription"],
    series: 5,
  },
  plugin_faults: {
    kind: "counter",
    help: "Failures of plug-ins that the relay kept from doing harm, by plug-in and by what was called",
    labels: ["plugin", "call"],
    series: 30,
  },
  spans: {
    kind: "counter",
    help: "Spans of traces, by result: exported or dropped",
    labels: ["result"],
    known: ["exported", "dropped"],
  },
  limiter_verdicts: {
    kind: "counter",
    help: "Decisions of the limiter: passed, or the code of the 429",
    labels: ["code"],
    known: ["passed", "ABUSE_SUSPEND", "RATE_LIMIT_EXCEEDED", "BURST_EXCEEDED", "PROVIDER_BACKPRESSURE"],
    series: 5,
  },
  http_requests: {
    kind: "counter",
    help: "HTTP requests answered, by route and status",
    labels: ["route", "status"],
    series: 145,
  },

  accept_delay_seconds: {
    kind: "counter",
    help: "Seconds by which the answers to publications ahead of their deliveries were delayed, in sum",
  },
  accept_seconds: { kind: "histogram", help: "From a publication's arrival until it is stored", buckets: FAST },
  accept_to_first_attempt_seconds: {
    kind: "histogram",
    help: "From acceptance until the first attempt begins",
    buckets: LONG,
  },
  attempt_seconds: { kind: "histogram", help: "One attempt, from name to reply", buckets: SLOW },
  transform_seconds: { kind: "histogram", help: "One run of a transform", buckets: RUNS },
  request_seconds: {
    kind: "histogram",
    help: "One HTTP request, from its head to the end of the answer",
    buckets: FAST,
  },
  commit_seconds: { kind: "histogram", help: "One commit of the storage, waiting included", buckets: FAST },
  commit_changes: { kind: "histogram", help: "Changes of one commit", buckets: SIZES },
  batch_changes: {
    kind: "histogram",
    help: "Changes of all commits that the storage synced together, where it gathers them",
    buckets: SIZES,
  },

  backlog: { kind: "gauge", help: "Deliveries waiting, as far as the queue knows or can count cheaply" },
  ordered_waiting: { kind: "gauge", help: "Deliveries of ordered subscriptions that wait for their turn" },
  ordered_held: { kind: "gauge", help: "Failed deliveries that hold up those behind them" },
  retention_lag_seconds: { kind: "gauge", help: "How far retention is behind what it may remove; 0 when it is done" },
  oldest_due_seconds: { kind: "gauge", help: "Age of the oldest delivery that is due, not paused and not under way" },
  subscriptions_paused: {
    kind: "gauge",
    help: "Subscriptions whose deliveries this node puts off: their endpoint fails, or asked for time (Retry-After)",
    labels: ["reason"],
  },
  leases: { kind: "gauge", help: "Deliveries under way on this node" },
  ready: { kind: "gauge", help: "1 when this node is ready to serve" },
  connection_away: {
    kind: "gauge",
    help: "1 while subscriptions are paused because a connection of the config is away",
    labels: ["transport"],
  },
  source_lag_seconds: { kind: "gauge", help: "How far a source is behind its upstream", labels: ["source"] },
  storage_bytes: { kind: "gauge", help: "Bytes that the storage uses, where it can tell cheaply" },
  disk_free_bytes: { kind: "gauge", help: "Bytes that are free where the data folder is" },
  event_loop_delay_seconds: {
    kind: "gauge",
    help: "Delay of the event loop since the last reading",
    labels: ["quantile"],
    series: 3,
  },
  log_lines_dropped: { kind: "gauge", help: "Log lines lost because nobody read the log fast enough" },
  build_info: { kind: "gauge", help: "1, with the versions that run", labels: ["version", "node"], series: 1 },
};

/** Buckets of a plug-in's histogram that names none. */
export const PLUGIN_BUCKETS: readonly number[] = SLOW;

/** The name under which Prometheus knows a metric. Plug-ins declare theirs by this name. */
export const promName = (name: string, row: MetricRow): string =>
  name.startsWith("relay_") ? name : `relay_${name}${row.kind === "counter" ? "_total" : ""}`;
