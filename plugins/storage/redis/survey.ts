/** What this Redis can promise, found out at start and told honestly. */
import { StartError } from "../../../core/model/errors.ts";
import type { Log } from "../../../core/ports/plugin.ts";
import type { Durability } from "../../../core/ports/storage.ts";
import type { Client } from "./connect.ts";
import type { RedisOptions } from "./options.ts";

export interface Survey {
  readonly durability: Durability;
  readonly version: string;
  /** "always", "everysec", "no", "off" (no append-only file) or "unknown". */
  readonly appendfsync: string;
  readonly replicas: number;
}

type Facts = ReadonlyMap<string, string>;

/** @throws StartError 78 when it would lose data by design, or cannot do what the config asks */
export async function survey(client: Client, options: RedisOptions, log: Log): Promise<Survey> {
  const server = primary(client);
  const info = parseInfo(String(await server.info()));
  const config = await configOf(server, log);
  const version = info.get("redis_version") ?? "unknown";
  if (Number.parseInt(version, 10) < 6) throw new StartError(78, `Redis ${version} is too old; 6.0 or newer is needed`);
  if (info.get("role") === "slave")
    throw new StartError(78, "this Redis is a replica; give the master, its sentinels or its cluster");

  const eviction = config.get("maxmemory-policy") ?? info.get("maxmemory_policy") ?? "unknown";
  const limited = Number(config.get("maxmemory") ?? info.get("maxmemory") ?? 0) > 0;
  if (eviction !== "noeviction" && (limited || eviction !== "unknown")) {
    throw new StartError(
      78,
      `Redis would throw events away when memory is short: set maxmemory-policy to noeviction (it is ${eviction})`,
    );
  }

  const replicas = Number(info.get("connected_slaves") ?? 0);
  const wanted = options.replicas ?? 0;
  if (replicas < wanted)
    log.warn("fewer replicas are connected than commits wait for: commits fail until they are", {
      connected: replicas,
      wanted,
    });
  const appendfsync = appendfsyncOf(info, config);
  const durability = judge(appendfsync, replicas, options);
  tell(log, durability, appendfsync, replicas, Number(config.get("min-replicas-to-write") ?? 0), options);
  return { durability, version, appendfsync, replicas };
}

/**
 * `replicated` only where an acknowledged commit survives the loss of one machine or process: by replicas that have said
 * so, or by a disk that was synced before the answer, as long as nobody else can be made master in its place.
 */
function judge(appendfsync: string, replicas: number, options: RedisOptions): Durability {
  if ((options.replicas ?? 0) > 0) return "replicated";
  const failover = options.sentinels !== undefined || options.cluster !== undefined || replicas > 0;
  return appendfsync === "always" && !failover ? "replicated" : "volatile";
}

function tell(
  log: Log,
  durability: Durability,
  appendfsync: string,
  replicas: number,
  required: number,
  options: RedisOptions,
): void {
  const wait = `commits wait for ${options.replicas ?? 0} of ${replicas} replicas, min-replicas-to-write ${required}`;
  const facts = { durability, detail: `appendfsync ${appendfsync}, ${wait}` };
  if (durability === "replicated") {
    log.info("commits survive the loss of Redis", facts);
    if (appendfsync !== "always")
      log.warn("replicas hold commits in memory only until they are synced: all of them at once must not die", facts);
    return;
  }
  const why =
    appendfsync === "always"
      ? "a failover to a replica that does not have them yet loses acknowledged events: set replicas"
      : "a crash of Redis loses acknowledged events: set appendonly yes and appendfsync always, or replicas";
  log.warn(why, facts);
}

function appendfsyncOf(info: Facts, config: Facts): string {
  if ((config.get("appendonly") ?? "") === "no" || info.get("aof_enabled") === "0") return "off";
  return config.get("appendfsync") ?? "unknown";
}

/** Managed Redis often forbids CONFIG: what INFO does not say is then unknown, and nothing is promised on it. */
async function configOf(server: Pick<Client, "config">, log: Log): Promise<Facts> {
  const facts = new Map<string, string>();
  try {
    for (const name of ["appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "min-replicas-to-write"]) {
      const [, value] = (await server.config("GET", name)) as string[];
      if (value !== undefined) facts.set(name, value);
    }
  } catch (error) {
    log.warn("Redis does not tell its configuration", { reason: error instanceof Error ? error.message : "" });
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

/** In a cluster: any master; all of them are set up alike, or the operator has to know. */
function primary(client: Client): Pick<Client, "info" | "config"> {
  return "nodes" in client ? (client.nodes("master")[0] ?? client) : client;
}
