/** Finds out what this Redis can promise, at start and again every few seconds, and reports it honestly. */
import { StartError, StorageError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Log, Metrics } from "../../../core/ports/plugin.ts";
import type { Durability } from "../../../core/ports/storage.ts";
import type { Calls } from "./calls.ts";
import type { Client } from "./connect.ts";
import type { ReadOptions } from "./options.ts";
import { createRewrite } from "./rewrite.ts";
import { checkDatabase, serverOf } from "./server.ts";

/** Time between two readings, ms. */
const LOOK_MS = 5_000;

interface RedisProbe {
  readonly durability: Durability;
  readonly version: string;
  /** "always", "everysec", "no", each also "…, except during rewrites", "off" (no append-only file) or "unknown". */
  readonly appendfsync: string;
  readonly replicas: number;
  /** The policy by which it throws records away when memory is short; it may be set while the relay runs. */
  readonly eviction: string | undefined;
}

/** What an answer is worth, by the last reading. */
interface Found extends RedisProbe {
  readonly info: Facts;
  readonly config: Facts;
}

type Facts = ReadonlyMap<string, string>;

/** @throws StartError 78 when it would lose data by design, or cannot do what the config asks */
export async function probeRedis(client: Client, tag: string, options: ReadOptions, log: Log): Promise<RedisProbe> {
  await checkDatabase(client);
  const found = await lookAt(client, tag, options, log);
  const { version, info, replicas, durability, appendfsync, eviction } = found;
  if (Number.parseInt(version, 10) < 6) throw new StartError(78, `Redis ${version} is too old; 6.0 or newer is needed`);
  if (info.get("role") === "slave")
    throw new StartError(78, "this Redis is a replica; give the master, its sentinels or its cluster");

  if (eviction !== undefined) {
    throw new StartError(
      78,
      `Redis would throw events away when memory is short: set maxmemory-policy to noeviction (it is ${eviction})`,
    );
  }

  const wanted = options.replicas ?? 0;
  if (replicas < wanted)
    log.warn("fewer replicas are connected than commits wait for: commits fail until they are", {
      connected: replicas,
      wanted,
    });
  report(log, found, options);
  return { durability, version, appendfsync, replicas, eviction };
}

/** @param log reports that Redis hides its configuration; left out when that is known */
async function lookAt(client: Client, tag: string, options: ReadOptions, log?: Log): Promise<Found> {
  const server = await serverOf(client, tag);
  const info = parseInfo(String(await server.info()));
  // It answers this while it reads its records, and says then that it has no append-only file.
  if (info.get("loading") === "1") throw new StorageError("unavailable", "Redis still reads its records");
  const config = await configOf(server, log);
  const version = info.get("redis_version") ?? "unknown";
  const replicas = Number(info.get("connected_slaves") ?? 0);
  const appendfsync = appendfsyncOf(info, config);
  const eviction = evictionOf(info, config);
  const durability = eviction === undefined ? judge(appendfsync, replicas, options) : "volatile";
  return { durability, version, appendfsync, replicas, eviction, info, config };
}

/** Returns the policy by which this Redis throws records away when memory is short; `undefined`: it does not. */
function evictionOf(info: Facts, config: Facts): string | undefined {
  const policy = config.get("maxmemory-policy") ?? info.get("maxmemory_policy") ?? "unknown";
  const limited = Number(config.get("maxmemory") ?? info.get("maxmemory") ?? 0) > 0;
  return policy !== "noeviction" && (limited || policy !== "unknown") ? policy : undefined;
}

interface LiveProbe {
  readonly now: RedisProbe;
  /** Reads at once, because the connection has changed. */
  look(): void;
  close(): void;
}

/**
 * Reads again every few seconds: an operator may reconfigure Redis while it runs, and replicas come and go. A value
 * that cannot be read stays as it was; nothing is acknowledged then either.
 */
export function liveProbe(
  first: RedisProbe,
  client: Client,
  tag: string,
  options: ReadOptions,
  deps: { readonly clock: Clock; readonly log: Log; readonly metrics: Metrics; readonly calls: Pick<Calls, "ask"> },
): LiveProbe {
  const { clock, log, metrics, calls } = deps;
  const ended = new AbortController();
  let now = first;
  const rewrite = createRewrite(client, tag, log);

  async function look(): Promise<void> {
    const found = await calls.ask(() => lookAt(client, tag, options), { repeatable: true, changes: false });
    const was = now;
    now = found;
    if (found.durability !== was.durability) metrics.count("durability_changes", { to: found.durability });
    else if (found.eviction === was.eviction) return;
    report(log, found, options);
  }

  async function watch(): Promise<void> {
    for (;;) {
      await clock.sleep(clock.now() + LOOK_MS, ended.signal);
      await look().catch(() => {});
      if (now.appendfsync !== "off") await calls.ask(rewrite, { repeatable: true, changes: false }).catch(() => {});
    }
  }
  watch().catch(() => {});

  return {
    get now() {
      return now;
    },
    look: () => void look().catch(() => {}),
    close: () => ended.abort(),
  };
}

/**
 * `fsync`: on the disk of this Redis before the answer, and no other can become master in its place. `replicated`: on
 * its disk, and replicas have confirmed that they have it. Otherwise a crash or a failover may lose what was
 * acknowledged.
 */
function judge(appendfsync: string, replicas: number, options: ReadOptions): Durability {
  if (appendfsync !== "always") return "volatile";
  if ((options.replicas ?? 0) > 0) return "replicated";
  const failover = options.sentinels !== undefined || options.cluster !== undefined || replicas > 0;
  return failover ? "volatile" : "fsync";
}

function report(log: Log, { durability, appendfsync, replicas, eviction, config }: Found, options: ReadOptions): void {
  const required = Number(config.get("min-replicas-to-write") ?? 0);
  const wait = `commits wait for ${options.replicas ?? 0} of ${replicas} replicas, min-replicas-to-write ${required}`;
  const facts = { durability, detail: `appendfsync ${appendfsync}, ${wait}` };
  if (durability !== "volatile") return log.info("commits survive a crash of Redis", facts);
  if (eviction !== undefined) {
    const rule = `set maxmemory-policy to noeviction (it is ${eviction})`;
    return log.warn(`Redis throws acknowledged events away when memory is short: ${rule}`, facts);
  }
  const why =
    appendfsync === "always"
      ? "a failover to a replica that does not have them yet loses acknowledged events: set replicas"
      : "a crash of Redis loses acknowledged events: set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no";
  log.warn(why, facts);
}

function appendfsyncOf(info: Facts, config: Facts): string {
  if ((config.get("appendonly") ?? "") === "no" || info.get("aof_enabled") === "0") return "off";
  const policy = config.get("appendfsync") ?? "unknown";
  // Nothing is synced while the file is rewritten, which may begin at any moment.
  return config.get("no-appendfsync-on-rewrite") === "yes" ? `${policy}, but for rewrites` : policy;
}

/** Managed Redis often forbids CONFIG: what INFO does not show is then unknown, and nothing is promised on it. */
async function configOf(server: Pick<Client, "config">, log?: Log): Promise<Facts> {
  const facts = new Map<string, string>();
  try {
    for (const name of [
      "appendonly",
      "appendfsync",
      "maxmemory",
      "maxmemory-policy",
      "min-replicas-to-write",
      "no-appendfsync-on-rewrite",
    ]) {
      const [, value] = (await server.config("GET", name)) as string[];
      if (value !== undefined) facts.set(name, value);
    }
  } catch (error) {
    log?.warn("Redis does not tell its configuration", { reason: error instanceof Error ? error.message : "" });
  }
  return facts;
}

function parseInfo(text: string): Facts {
  const facts = new Map<string, string>();
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) facts.set(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return facts;
}
