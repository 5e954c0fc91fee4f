/** Opens the storage on Redis. */
import { randomBytes } from "node:crypto";
import { causeOf } from "../../../core/lib/reason.ts";
import { StartError, StorageError } from "../../../core/model/errors.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Storage } from "../../../core/ports/storage.ts";
import { simpleDriver } from "../embedded/driver.ts";
import { Calls, ExclusiveTurn } from "./calls.ts";
import { Channel } from "./channel.ts";
import {
  type Client,
  connection as connectionOf,
  faultBehind,
  placeOf,
  type RedisConnection,
  tagOf,
} from "./connect.ts";
import { sharedCounters } from "./counters.ts";
import { nodes as createNodes } from "./nodes.ts";
import { LEASE_MS, type ReadOptions, readSecrets, type RedisOptions } from "./options.ts";
import { infoOf, probeRedis, serverOf } from "./probe.ts";
import { SharedQueue } from "./queue.ts";
import { manyValues, ranges } from "./range.ts";
import { largeCalls, replicated } from "./slow-calls.ts";
import { timeArgument, type Now } from "./time-argument.ts";
import { Writer } from "./writer.ts";

/** @throws StartError when Redis cannot be used */
export async function open(
  given: RedisOptions,
  context: PluginContext,
  serverNow: Now,
  connect = connectionOf,
): Promise<Storage> {
  const options = readSecrets(given, context.secret);
  const connection = await connect(options, options.prefix ?? "relay");
  const ended = new AbortController();
  try {
    await connection.client.connect();
    return await onConnection(connection, options, context, serverNow, ended);
  } catch (error) {
    ended.abort();
    connection.end();
    if (error instanceof StartError) throw error;
    const cause = faultBehind(connection.client, error);
    throw new StartError(69, `Redis at ${placeOf(options)} cannot be used: ${causeOf(cause)}`, { cause });
  }
}

async function onConnection(
  { client, driver, subscriber, patient, end }: RedisConnection,
  options: ReadOptions,
  context: PluginContext,
  serverNow: Now,
  ended: AbortController,
): Promise<Storage> {
  const { clock, log } = context;
  const { prefix = "relay", replicas = 0, leaseMs = LEASE_MS } = options;
  const tag = tagOf(prefix);
  const node = randomBytes(9).toString("base64url");
  const time = timeArgument(clock, serverNow);
  const turn = new ExclusiveTurn();
  const reading = new Calls(client, tag, clock, { turn });
  const found = await probeRedis(client, tag, options, context, reading, ended.signal);
  const writing = replicas > 0 ? await copiedCalls(subscriber(), tag, clock, replicas, turn) : reading;
  const channel = new Channel(log);
  // Extending waits for replicas as well: an event that was not copied when its attempt begins could be lost, and its
  // id be published again as another event.
  const writer = new Writer({
    calls: writing,
    large: largeCalls(patient, tag, clock, turn, replicas),
    clock,
    now: time.now,
    node,
    flights: replicas > 0 ? 1 : 2,
    channel,
    due: (inMs) => queue.noteDue(inMs),
  });
  const queue = new SharedQueue({ calls: reading, writer, clock, time, leaseMs, node, channel });
  const nodes = createNodes(reading, tag, clock, node, time);
  const wake = (inMs: number): void => queue.noteDue(inMs);
  const listener = { client: subscriber(), tag, clock, calls: reading, nodes, wake, ended: ended.signal };
  await channel.listen(listener);
  // A new master may lack messages that the old one sent.
  client.on("ready", () => channel.missed());
  const getMany = manyValues(reading, tag, time.now);
  const range = ranges(reading, tag, time.now);
  let closed = false;
  const commit: Storage["commit"] = async (changes) => {
    if (closed) throw new StorageError("unavailable", "the storage is closed");
    await writer.commit(changes);
  };
  const { usedBytes, room, time: serverTime } = aboutServer(reading, tag);

  return {
    name: "redis",
    getInstance: driver.getInstance,
    get durability() {
      return found().durability;
    },
    ...simpleDriver({ commit, getMany, range }),
    getMany,
    commit,
    range,
    watch: (changed) => channel.watch(changed),
    queue,
    nodes,
    counters: sharedCounters(reading, time.now),
    async status() {
      channel.checkRecords();
      const { waiting, leased } = await queue.depth();
      const { durability, version, appendfsync, replicas: copies } = found();
      const facts = { name: "redis", durability, version, appendfsync, replicas: copies, waiting, leased };
      return { ...facts, usedBytes: await usedBytes(), nodes: await nodes.count(), listening: channel.listening };
    },
    room,
    time: serverTime,
    async dispose() {
      if (closed) return;
      closed = true;
      queue.close();
      await writer.ended();
      // Before it leaves: no sign of life may follow.
      ended.abort();
      await nodes.leave();
      end();
    },
  };
}

/** Opens a connection for what replicas must have too. */
async function copiedCalls(client: Client, tag: string, clock: Clock, replicas: number, turn: ExclusiveTurn) {
  await client.connect();
  return new Calls(client, tag, clock, { evaluate: replicated(client, tag, replicas), turn });
}

/** Returns what the storage tells of its server. */
function aboutServer(calls: Calls, tag: string) {
  const memoryOf = async (...names: readonly string[]): Promise<readonly number[]> => {
    const info = await calls.ask(async (asked) => (await serverOf(asked, tag)).info("memory"));
    return names.map((name) => Number(infoOf(info, name) ?? 0));
  };
  return {
    usedBytes: async () => (await memoryOf("used_memory"))[0] ?? 0,
    async room() {
      const [totalBytes = 0, used = 0] = await memoryOf("maxmemory", "used_memory");
      return totalBytes === 0 ? undefined : { freeBytes: Math.max(0, totalBytes - used), totalBytes };
    },
    async time() {
      const answer: unknown = await calls.ask(async (asked) => (await serverOf(asked, tag)).time());
      const [seconds, micros] = answer as readonly [string | number, string | number];
      return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
    },
  };
}
