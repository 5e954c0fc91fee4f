/**
 * The context that a plug-in's own tests hand to `setup`: the relay's own, over a storage in memory, a clock that the test
 * moves, a log and metrics that can be read, and a connector without a guard.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { connect as connectTcp, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { once } from "node:events";
import { ConnectError } from "../../core/model/errors.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { Connect, ConnectTarget, LogFields, Metrics, Plugin, PluginContext } from "../../core/ports/plugin.ts";
import { createFetch } from "../../core/runtime/fetch.ts";
import { makeKeys } from "../../core/runtime/keys/keyring.ts";
import { METRIC_TABLE } from "../../core/runtime/observability/metric-table.ts";
import { contextOf } from "../../core/runtime/plugin/context.ts";
import { SecretOptions } from "../../core/runtime/secret-options.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock, type TestClock } from "./clock.ts";

export interface TestContextOptions<Time extends Clock = TestClock> {
  /** The clock. @default `testClock()`, which stands still until the test moves it */
  readonly clock?: Time;
  /** Variables that `secretFrom({ env })` reads. @default none */
  readonly env?: Readonly<Record<string, string>>;
  /** PEM of an authority that `connect` and `fetch` trust beside the system's. */
  readonly ca?: string;
}

/** One line that the plug-in wrote. */
export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly fields: LogFields;
}

export interface TestContext<Time extends Clock = TestClock> extends PluginContext, AsyncDisposable {
  readonly clock: Time;
  /** The lines that the plug-in logged. */
  readonly lines: readonly LogLine[];
  /**
   * Counters, gauges, and sums of histograms, by name and labels as in `relay_plugin_x_total{queue="a"}`; the relay's own by
   * their short names.
   */
  readonly figures: ReadonlyMap<string, number>;
}

/**
 * Makes the context of a plug-in. Dispose it at the end: its folder is removed then.
 * @throws Error when the plug-in counts a metric that neither it nor the relay declares: a relay would ignore that
 */
export async function testContext<Time extends Clock = TestClock>(
  plugin: Pick<Plugin<string, unknown>, "kind" | "name" | "secrets" | "metrics">,
  options: TestContextOptions<Time> = {},
): Promise<TestContext<Time>> {
  const { env = {}, ca } = options;
  const clock = options.clock ?? (testClock() as Clock as Time);
  const dataDir = await mkdtemp(join(tmpdir(), "relay-plugin-"));
  const lines: LogLine[] = [];
  const figures = new Map<string, number>();
  const at =
    (level: LogLine["level"]) =>
    (message: string, fields: LogFields = {}): void =>
      void lines.push({ level, message, fields });
  const connect = openConnect(ca);
  const fetching = createFetch(connect);
  const key = (byte: number): string => Buffer.alloc(32, byte).toString("base64");
  const keys = makeKeys({ master: key(1), signing: key(2), publishToken: "publish-token-of-the-tests" });
  const around = {
    clock,
    log: { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") },
    metrics: recording(figures, new Set([...Object.keys(METRIC_TABLE), ...(plugin.metrics ?? []).map(nameOf)])),
    connect,
    fetch: fetching.fetch,
    keys,
    guess: async <T>(_place: string, _who: string, attempt: () => Promise<T>): Promise<T> => await attempt(),
    secrets: new SecretOptions({ env, configDir: dataDir }),
    publishToken: keys.publishToken,
    dataDir,
    configDir: dataDir,
  };
  const store = memory();
  const storage = await store.setup(contextOf(store, around, undefined));
  const context = contextOf(plugin, around, storage);
  const more: Omit<TestContext<Time>, keyof PluginContext> & { readonly clock: Time } = {
    clock,
    lines,
    figures,
    async [Symbol.asyncDispose]() {
      await fetching.dispose();
      await storage.dispose();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
  return Object.defineProperties({} as TestContext<Time>, {
    ...Object.getOwnPropertyDescriptors(context),
    ...Object.getOwnPropertyDescriptors(more),
  });
}

const nameOf = ({ name }: { readonly name: string }): string => name;

function recording(figures: Map<string, number>, known: ReadonlySet<string>): Metrics {
  const place = (name: string, labels: Readonly<Record<string, string>> = {}): string => {
    if (!known.has(name)) throw new Error(`nobody declares the metric ${name}`);
    const pairs = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
    return pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`;
  };
  const add = (at: string, by: number): void => void figures.set(at, (figures.get(at) ?? 0) + by);
  return {
    count: (name, labels, by = 1) => add(place(name, labels), by),
    gauge: (name, value, labels) => void figures.set(place(name, labels), value),
    observe: (name, seconds, labels) => add(place(name, labels), seconds),
  };
}

/** Connects to anything, with TLS fully verified: the guard's rules are tested where the guard is. */
const openConnect =
  (ca: string | undefined): Connect =>
  async ({ hostname, port, tls = true, alpn = ["http/1.1"] }: ConnectTarget, signal) => {
    const host = hostname.replace(/^\[(.*)\]$/, "$1");
    const trust = ca === undefined ? {} : { ca };
    const socket: Socket = tls
      ? connectTls({ host, port, servername: /^[\d.:]+$/.test(host) ? "" : host, ALPNProtocols: [...alpn], ...trust })
      : connectTcp({ host, port });
    try {
      await once(socket, tls ? "secureConnect" : "connect", { signal });
      return socket;
    } catch (error) {
      socket.destroy();
      signal.throwIfAborted();
      throw new ConnectError(tls ? "tls" : "connect", String(error), undefined, { cause: error });
    }
  };
