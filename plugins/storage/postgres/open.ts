/** Opens the storage on PostgreSQL. */
import { randomBytes } from "node:crypto";
import type pg from "pg";
import { causeOf } from "../../../core/lib/reason.ts";
import { StartError, StorageError } from "../../../core/model/errors.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Storage } from "../../../core/ports/storage.ts";
import { simpleDriver } from "../embedded/driver.ts";
import type { Message } from "../shared/questions.ts";
import { Channel } from "./channel.ts";
import { sharedCounters } from "./counters.ts";
import { Link } from "./link.ts";
import { nodes as createNodes } from "./nodes.ts";
import { LEASE_MS, type PostgresStorageOptions, readUrl, SCHEMA } from "./options.ts";
import { probePostgres } from "./probe.ts";
import { SharedQueue } from "./queue.ts";
import { manyValues, ranges } from "./reader.ts";
import { makeSchema } from "./schema.ts";
import { Server } from "./server.ts";
import { timeArgument, type Now } from "./time-argument.ts";
import { Writer } from "./writer.ts";

/** How long a statement that makes the schema may take, ms. */
const SCHEMA_MS = 60_000;
/** What to do about refusals whose words do not say it. */
const NEXT: Readonly<Record<string, string>> = {
  "3D000": "make it (CREATE DATABASE), or name another in the url",
  "28000": "let pg_hba.conf admit this role from here",
  "28P01": "see that user and password are right",
  "25006": "name the primary too: postgres://primary,standby/database",
  "53300": "raise max_connections: each node has up to eight connections",
};

/** @throws StartError when PostgreSQL cannot be used */
export async function open(
  options: PostgresStorageOptions,
  context: PluginContext,
  library: typeof pg,
  serverNow: Now,
): Promise<Storage> {
  const { clock } = context;
  const secret = (path: string): string => context.secret(path);
  const urls = readUrl("url", options.url, secret) ?? [];
  const direct = readUrl("directUrl", options.directUrl, secret);
  const ended = new AbortController();
  const server = new Server({ library, urls, clock, ended: ended.signal });
  const sessions = direct === undefined ? server : new Server({ library, urls: direct, clock, ended: ended.signal });
  const links = linksTo(server, sessions, clock);
  try {
    const { client, close } = await sessions.open(SCHEMA_MS);
    await makeSchema(client, options.schema ?? SCHEMA, server.place).finally(() => void close());
    return await onServer(links, options, context, serverNow, ended);
  } catch (error) {
    ended.abort();
    await links.close();
    if (error instanceof StartError) throw error;
    const cause = (error as { readonly cause?: unknown }).cause ?? error;
    const next = NEXT[String((cause as { readonly code?: unknown }).code)];
    const said = [causeOf(cause), next].filter((part) => part !== undefined).join(": ");
    throw new StartError(69, `PostgreSQL at ${server.place()} cannot be used: ${said}`, { cause });
  }
}

/** The connections of a node, each for what must not wait behind the others. They connect when they are used first. */
function linksTo(server: Server, sessions: Server, clock: PluginContext["clock"]) {
  const link = (): Link => new Link(server, clock);
  const made = { write: link(), read: link(), scan: link(), claim: link(), slow: link(), count: link() };
  const all = { ...made, chores: new Link(sessions, clock) };
  return { ...all, server, sessions, close: () => Promise.all(Object.values(all).map((one) => one.close())) };
}

async function onServer(
  links: ReturnType<typeof linksTo>,
  { schema = SCHEMA, leaseMs = LEASE_MS }: PostgresStorageOptions,
  { clock, log }: PluginContext,
  serverNow: Now,
  ended: AbortController,
): Promise<Storage> {
  const node = randomBytes(9).toString("base64url");
  const time = timeArgument(clock, serverNow);
  await links.write.connect();
  const common = { schema, clock, time, node, leaseMs };
  const queue = new SharedQueue({
    ...common,
    link: links.claim,
    slow: links.slow,
    writer: () => writer,
    channel: () => channel,
    nodes: () => nodes,
  });
  const channel = new Channel({
    ...common,
    server: links.sessions,
    ended: ended.signal,
    heard: (text) => nodes.heard(JSON.parse(text) as Message),
    rung: (words) => queue.rung(words),
    lived: (dead) => void queue.tend(dead).catch(() => undefined),
  });
  const writer = new Writer({ ...common, link: links.write, channel, told: queue });
  const nodes = createNodes(links.count, schema, clock, node, time);
  nodes.answer((word) => queue.heard(word));
  await channel.start();
  const probing = { ...common, link: links.chores, place: links.server.place, log, channel, ended: ended.signal };
  const found = await probePostgres(probing);
  let closed = false;
  const getMany = manyValues(links.read, schema);
  const range = ranges(links.scan, schema);
  const commit: Storage["commit"] = async (changes) => {
    if (closed) throw new StorageError("unavailable", "the storage is closed");
    if (changes.length > 0) await writer.commit(changes);
  };

  return {
    name: "postgres",
    getInstance: () => undefined,
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
    counters: sharedCounters(links.count, schema, time),
    async status() {
      const { waiting, leased } = await queue.depth();
      const about = { ...found(), schema, waiting, leased, usedBytes: await usedBytes(links.slow, schema) };
      return { name: "postgres", ...about, nodes: channel.others + 1, listening: channel.listening };
    },
    async time() {
      const text = "select floor(extract(epoch from clock_timestamp()) * 1000)::bigint";
      return Number((await links.slow.run({ text }))[0]?.[0]);
    },
    async dispose() {
      if (closed) return;
      closed = true;
      await queue.close();
      await writer.ended();
      // Before it leaves: no sign of life may follow.
      ended.abort();
      await channel.leave();
      await links.close();
    },
  };
}

async function usedBytes(link: Link, schema: string): Promise<number> {
  const sizes = ["kv", "due", "ready", "done"].map((table) => `pg_total_relation_size('"${schema}".${table}')`);
  return Number((await link.run({ text: `select ${sizes.join(" + ")}` }))[0]?.[0]);
}
