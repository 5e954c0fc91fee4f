/** Finds out what this Redis can promise, at start and again every few seconds, and reports it honestly. */
import type { Redis } from "ioredis";
import { every } from "../../../core/lib/every.ts";
import { StartError, StorageError } from "../../../core/model/errors.ts";
import type { Log, PluginContext } from "../../../core/ports/plugin.ts";
import type { Durability } from "../../../core/ports/storage.ts";
import type { Calls } from "./calls.ts";
import type { Client } from "./connect.ts";
import type { ReadOptions } from "./options.ts";

/** Time between two readings, ms. */
const READ_MS = 5_000;
/** Least time between two rewrites of the append-only file that any node asks for, ms. */
const REST_MS = 3_600_000;

interface RedisProbe {
  readonly durability: Durability;
  readonly version: string;
  /** "always", "everysec", "no", each also "…, but for rewrites", "off" (no append-only file) or "unknown". */
  readonly appendfsync: string;
  readonly replicas: number;
  readonly isReplica: boolean;
  /** The policy by which it throws records away when memory is short; `undefined`: it does not. */
  readonly eviction: string | undefined;
  /** `min-replicas-to-write` */
  readonly required: number;
}

/**
 * Returns the server that keeps the keys with this tag. In a cluster a command without a key, such as INFO, goes to any
 * node by itself, and would be answered for memory and settings that are not ours.
 */
export async function serverOf(client: Client, tag: string): Promise<Redis> {
  if (!("nodes" in client)) return client;
  const slot = Number(await client.cluster("KEYSLOT", tag));
  const keeper = client.slots[slot]?.[0];
  const server = client.nodes("master").find(({ options: { host, port } }) => `${host}:${port}` === keeper);
  if (server === undefined) throw new Error("Cluster isn't ready: no node is known that keeps the relay");
  return server;
}

export const infoOf = (info: string, name: string): string | undefined =>
  new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1];

/**
 * The client selects the database of the URL, but goes on in database 0 when it cannot: in another relay's records.
 * @throws StartError 78
 */
async function checkDatabase(client: Client): Promise<void> {
  const db = "nodes" in client ? undefined : client.options.db;
  if (db === undefined) return;
  try {
    await (client as Redis).select(db);
  } catch (error) {
    if (!(error instanceof Error) || error.name !== "ReplyError") throw error;
    throw new StartError(78, `this Redis has no database "${db}" for this relay: ${error.message}`);
  }
}

/** @param log reports that Redis hides its configuration; left out when that is known */
async function probe(client: Client, tag: string, options: ReadOptions, log?: Log): Promise<RedisProbe> {
  const server = await serverOf(client, tag);
  const info = await server.info();
  // It answers this while it reads its records, and says then that it has no append-only file.
  if (infoOf(info, "loading") === "1") throw new StorageError("unavailable", "Redis still reads its records");
  // Managed Redis often forbids CONFIG: what INFO does not show is then unknown, and nothing is promised on it.
  let hidden: string | undefined;
  const setting = async (name: string): Promise<string | undefined> => {
    if (hidden !== undefined) return undefined;
    try {
      const [, value] = (await server.config("GET", name)) as string[];
      return value;
    } catch (error) {
      if (!(error instanceof Error) || error.name !== "ReplyError") throw error;
      hidden = error.message;
      return undefined;
    }
  };
  const policy = (await setting("maxmemory-policy")) ?? infoOf(info, "maxmemory_policy") ?? "unknown";
  const limited = Number((await setting("maxmemory")) ?? infoOf(info, "maxmemory") ?? 0) > 0;
  const eviction = policy !== "noeviction" && (limited || policy !== "unknown") ? policy : undefined;
  const fsync = (await setting("appendfsync")) ?? "unknown";
  // Nothing is synced while the file is rewritten, which may begin at any moment.
  const synced = (await setting("no-appendfsync-on-rewrite")) === "yes" ? `${fsync}, but for rewrites` : fsync;
  const off = (await setting("appendonly")) === "no" || infoOf(info, "aof_enabled") === "0";
  const appendfsync = off ? "off" : synced;
  const required = Number((await setting("min-replicas-to-write")) ?? 0);
  if (hidden !== undefined) log?.warn("Redis does not tell its configuration", { reason: hidden });
  const replicas = Number(infoOf(info, "connected_slaves") ?? 0);
  return {
    durability: eviction === undefined ? judge(appendfsync, replicas, options) : "volatile",
    version: infoOf(info, "redis_version") ?? "unknown",
    appendfsync,
    replicas,
    isReplica: infoOf(info, "role") === "slave",
    eviction,
    required,
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

function report(log: Log, found: RedisProbe, wanted: number): void {
  const { durability, appendfsync, replicas, eviction, required } = found;
  const wait = `commits wait for ${wanted} of ${replicas} replicas, min-replicas-to-write ${required}`;
  const facts = { durability, detail: `appendfsync ${appendfsync}, ${wait}` };
  if (durability !== "volatile") return log.info("commits survive a crash of Redis", facts);
  const why =
    eviction !== undefined
      ? `Redis throws acknowledged events away when memory is short: set maxmemory-policy to noeviction (it is ${eviction})`
      : appendfsync === "always"
        ? "a failover to a replica that does not have them yet loses acknowledged events: set replicas"
        : "a crash of Redis loses acknowledged events: set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no";
  log.warn(why, facts);
}

/** @throws StartError 78 when it would lose data by design, or cannot do what the config asks */
function refuse({ version, isReplica, eviction }: RedisProbe): void {
  const why =
    Number.parseInt(version, 10) < 6
      ? `Redis ${version} is too old; 6.0 or newer is needed`
      : isReplica
        ? "this Redis is a replica; give the master, its sentinels or its cluster"
        : eviction !== undefined
          ? `Redis would throw events away when memory is short: set maxmemory-policy to noeviction (it is ${eviction})`
          : undefined;
  if (why !== undefined) throw new StartError(78, why);
}

/** Has Redis rewrite its append-only file after erasures, at most once an hour over all nodes. */
function createRewrite(client: Client, tag: string, log: Log): () => Promise<void> {
  let refused = false;
  return async () => {
    const [erased, rewritten] = await client.mget(`${tag}:erased`, `${tag}:rewritten`);
    if (erased === rewritten || typeof erased !== "string") return;
    if ((await client.set(`${tag}:rewriting`, "", "PX", REST_MS, "NX")) === null) return;
    try {
      await (await serverOf(client, tag)).bgrewriteaof();
      await client.set(`${tag}:rewritten`, erased);
    } catch (error) {
      // One that is under way may have begun too early; the next is asked for in an hour.
      if (!refused) log.warn("Redis keeps erased data in its append-only file for now", { reason: String(error) });
      refused = true;
    }
  };
}

/**
 * Reads at once, at each new connection and every few seconds: an operator may reconfigure Redis while it runs, and
 * replicas come and go. A value that cannot be read stays as it was; nothing is acknowledged then either.
 * @returns the last reading
 * @throws StartError 78
 */
export async function probeRedis(
  client: Client,
  tag: string,
  options: ReadOptions,
  { clock, log, metrics }: Pick<PluginContext, "clock" | "log" | "metrics">,
  calls: Calls,
  ended: AbortSignal,
): Promise<() => RedisProbe> {
  const wanted = options.replicas ?? 0;
  await checkDatabase(client);
  let now = await probe(client, tag, options, log);
  refuse(now);
  const { replicas: connected } = now;
  if (connected < wanted)
    log.warn("fewer replicas are connected than commits wait for: commits fail until they are", { connected, wanted });
  report(log, now, wanted);

  let unsure = false;
  const read = async (): Promise<void> => {
    const found = await calls.ask(() => probe(client, tag, options));
    const was = now;
    // A Redis that comes back may not tell its settings yet: the next reading says whether it stays so.
    unsure = !unsure && found.appendfsync === "unknown" && was.appendfsync !== "unknown";
    if (unsure) return;
    now = found;
    if (found.durability !== was.durability) metrics.count("durability_changes", { to: found.durability });
    if (found.durability !== was.durability || found.eviction !== was.eviction) report(log, found, wanted);
  };
  const rewrite = createRewrite(client, tag, log);
  const watch = async (): Promise<void> => {
    await read().catch(() => {});
    if (now.appendfsync !== "off") await calls.ask(rewrite).catch(() => {});
  };
  every(clock, READ_MS, watch, ended).catch(() => {});
  client.on("ready", () => void read().catch(() => {}));

  return () => now;
}
