/** Opens the storage on Redis. */
import { randomBytes } from "node:crypto";
import { StartError, StorageError } from "../../../core/model/errors.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Storage } from "../../../core/ports/storage.ts";
import { simpleDriver } from "../embedded/driver.ts";
import { calls } from "./calls.ts";
import { channel, type Channel } from "./channel.ts";
import { commits } from "./commits.ts";
import { type Client, connection, tagOf } from "./connect.ts";
import { sharedCounters } from "./counters.ts";
import { createExclusiveTurn } from "./exclusive-turn.ts";
import { large as largeCalls, patienceFor } from "./large.ts";
import { nodes as createNodes } from "./nodes.ts";
import { LEASE_MS, readSecrets, type RedisOptions } from "./options.ts";
import { sharedQueue } from "./queue.ts";
import { manyValues, ranges } from "./range.ts";
import { replicated } from "./replicated.ts";
import { timeArgument, type Now } from "./time-argument.ts";
import { batchCalls } from "./batch-calls.ts";
import { liveProbe, probeRedis } from "./probe.ts";
import { serverOf } from "./server.ts";

/** @throws StartError when Redis cannot be used */
export async function open(
  given: RedisOptions,
  { clock, log, metrics, secret }: PluginContext,
  serverNow: Now,
  connect = connection,
): Promise<Storage> {
  const options = readSecrets(given, secret);
  const { prefix = "relay", replicas = 0, leaseMs = LEASE_MS } = options;
  const tag = tagOf(prefix);
  const node = randomBytes(9).toString("base64url");
  const { client, driver, subscriber, patient } = await connect(options, prefix);
  const clients: Client[] = [client];
  const another = (): Client => {
    const made = subscriber();
    clients.push(made);
    return made;
  };
  try {
    await client.connect();
    const first = await probeRedis(client, tag, options, log);

    const time = timeArgument(clock, serverNow);
    const { now } = time;
    const gate = createExclusiveTurn();
    const large = largeCalls(
      patient,
      tag,
      clock,
      gate,
      replicas > 0 ? (own) => replicated(own, tag, replicas, (args) => Math.round(patienceFor(args) / 2)) : undefined,
    );
    const reading = calls(client, tag, clock, { gate });
    let writing = reading;
    if (replicas > 0) {
      const writer = another();
      await writer.connect();
      writing = calls(writer, tag, clock, { evaluate: replicated(writer, tag, replicas), gate });
    }
    const channelNow = (): Channel => notifications;
    const due = (inMs: number): void => queue.noteDue(inMs);
    // Extending waits for replicas as well: an event that was not copied when its attempt begins could be lost, and its
    // id be published again as another event.
    const step = batchCalls(writing, large, now, clock, due);
    const committing = commits(step, clock, node, channelNow);
    const queue = sharedQueue({
      calls: reading,
      step,
      commits: committing,
      clock,
      now,
      noted: time.noted,
      leaseMs,
      node,
      channel: channelNow,
    });
    const otherNodes = createNodes(reading, tag, clock, node, time);
    const notifications: Channel = await channel(
      another,
      tag,
      clock,
      reading,
      otherNodes.alive,
      queue.noteDue,
      otherNodes.heard,
      log,
    );
    // A new master may lack messages that the old one sent.
    client.on("ready", notifications.missed);
    const found = liveProbe(first, client, tag, options, { clock, log, metrics, calls: reading });
    client.on("ready", found.look);
    const range = ranges(reading, tag, now);
    let closed = false;

    const open = (): void => {
      if (closed) throw new StorageError("unavailable", "the storage is closed");
    };
    const readMemory = (): Promise<string> =>
      reading.ask(async (asked) => (await serverOf(asked, tag)).info("memory"), { repeatable: true, changes: false });
    const getMany = manyValues(reading, tag, now);
    const commit: Storage["commit"] = async (changes) => {
      open();
      await committing.commit(changes);
    };

    return {
      name: "redis",
      getInstance: driver.getInstance,
      get durability() {
        return found.now.durability;
      },
      ...simpleDriver({ commit, getMany, range }),
      getMany,
      commit,
      range,
      watch: (changed) => channelNow().watch(changed),
      queue,
      nodes: otherNodes,
      counters: sharedCounters(reading, now),
      async status() {
        channelNow().checkRecords();
        const { waiting, leased } = await queue.depth();
        const info = await readMemory();
        const usedBytes = memoryOf(info, "used_memory");
        const { durability, version, appendfsync, replicas: connected } = found.now;
        return {
          name: "redis",
          durability,
          version,
          appendfsync,
          replicas: connected,
          waiting,
          leased,
          usedBytes,
          nodes: await otherNodes.count(),
          listening: channelNow().listening,
        };
      },
      async room() {
        const info = await readMemory();
        const totalBytes = memoryOf(info, "maxmemory");
        if (totalBytes === 0) return undefined;
        return { freeBytes: Math.max(0, totalBytes - memoryOf(info, "used_memory")), totalBytes };
      },
      async time() {
        const answer: unknown = await reading.ask(async (asked) => (await serverOf(asked, tag)).time(), {
          repeatable: true,
          changes: false,
        });
        const [seconds, micros] = answer as readonly [string | number, string | number];
        return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
      },
      async dispose() {
        if (closed) return;
        closed = true;
        queue.close();
        found.close();
        await committing.ended();
        channelNow().close();
        await otherNodes.leave();
        for (const one of clients) one.disconnect();
        large.end();
      },
    };
  } catch (error) {
    for (const one of clients) one.disconnect();
    if (error instanceof StartError) throw error;
    throw new StartError(69, `Redis cannot be used: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

/** A value of `INFO memory`, in bytes. */
const memoryOf = (info: string, name: string): number =>
  Number(new RegExp(`^${name}:(\\d+)`, "m").exec(info)?.[1] ?? 0);
