/** Real buses as the far side of a relay: where to send, what has arrived, and how each is killed and started again. */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { Redis } from "ioredis";
import { Connection } from "rabbitmq-client";
import { toAmqp } from "../../plugins/transport/amqp.ts";
import { toFile } from "../../plugins/transport/file.ts";
import { toNats } from "../../plugins/transport/nats.ts";
import { toRedisStream } from "../../plugins/transport/redis-stream.ts";
import type { TransportPlugin } from "../../core/ports/plan.ts";
import { startNats } from "./nats.ts";
import { needs } from "./needs.ts";
import { startRabbit } from "./rabbitmq.ts";
import { startRedis } from "./redis.ts";

export interface Arrived {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export interface FarBus extends AsyncDisposable {
  readonly plugin: TransportPlugin;
  /** The factory and its call, as source text for the config of another process. */
  readonly factory: string;
  readonly call: string;
  readonly url: string;
  /** Everything that has arrived until now. */
  arrived(): Promise<readonly Arrived[]>;
  /** Absent where there is no server. */
  readonly server?: { kill(): Promise<void>; start(): Promise<void> };
}

export interface BusKind {
  readonly name: string;
  readonly missing: string | undefined;
  start(): Promise<FarBus>;
}

const nats: BusKind = {
  name: "NATS",
  missing: needs("nats"),
  async start() {
    const server = await startNats();
    const options = { servers: server.url, maxReconnectAttempts: -1, reconnectTimeWait: 100 };
    const client = await connect(options);
    const manager = await jetstreamManager(client);
    await manager.streams.add({ name: "DEPOSITS", subjects: ["deposits.>"] });
    return {
      plugin: toNats({ name: "bus", servers: server.url }),
      factory: "toNats",
      call: `toNats({ name: "bus", servers: "${server.url}" })`,
      url: "nats://bus/deposits.paid",
      server,
      async arrived() {
        const { messages } = (await manager.streams.info("DEPOSITS")).state;
        const found: Arrived[] = [];
        for (let seq = 1; seq <= messages; seq++) {
          const { header, data } = (await manager.streams.getMessage("DEPOSITS", { seq })) ?? {};
          const headers = Object.fromEntries((header?.keys() ?? []).map((name) => [name, header?.get(name) ?? ""]));
          found.push({ headers, body: data ?? new Uint8Array() });
        }
        return found;
      },
      async [Symbol.asyncDispose]() {
        await client.close();
        await server[Symbol.asyncDispose]();
      },
    };
  },
};

const rabbit: BusKind = {
  name: "RabbitMQ",
  missing: needs("rabbitmq"),
  async start() {
    const server = await startRabbit();
    const client = new Connection({ url: server.url, retryLow: 100, retryHigh: 500 });
    client.on("error", () => {});
    await client.exchangeDeclare({ exchange: "deposits", type: "topic", durable: true });
    await client.queueDeclare({ queue: "paid", durable: true });
    await client.queueBind({ queue: "paid", exchange: "deposits", routingKey: "deposits.*" });
    await server.restart();
    const found: Arrived[] = [];
    // Each is acknowledged when it has been taken in, so that a kill takes none away.
    client
      .createConsumer({ queue: "paid", queueOptions: { durable: true } }, ({ headers, body }) => {
        found.push({ headers: headers as Record<string, string>, body: body as Buffer });
      })
      .on("error", () => {});
    return {
      plugin: toAmqp({ name: "bus", url: server.url }),
      factory: "toAmqp",
      call: `toAmqp({ name: "bus", url: "${server.url}" })`,
      url: "amqp://bus/deposits/deposits.paid",
      server,
      arrived: () => Promise.resolve(found),
      async [Symbol.asyncDispose]() {
        client.unsafeDestroy();
        await server[Symbol.asyncDispose]();
      },
    };
  },
};

const redis: BusKind = {
  name: "Redis",
  missing: needs("redis"),
  async start() {
    const server = await startRedis({ config: { appendonly: "yes", appendfsync: "always" } });
    const client = new Redis(server.url);
    client.on("error", () => {});
    return {
      plugin: toRedisStream({ name: "bus", url: server.url }),
      factory: "toRedisStream",
      call: `toRedisStream({ name: "bus", url: "${server.url}" })`,
      url: "redis-stream://bus/deposits",
      server,
      async arrived() {
        const entries = (await client.callBuffer("XRANGE", "deposits", "-", "+")) as [Buffer, Buffer[]][];
        return entries.map(([, flat]) => {
          const at = flat.findIndex((part, i) => i % 2 === 0 && String(part) === "event");
          const names = flat.flatMap((part, i) =>
            i % 2 === 0 && i !== at ? [[String(part), String(flat[i + 1])]] : [],
          );
          return { headers: Object.fromEntries(names) as Record<string, string>, body: flat[at + 1] as Buffer };
        });
      },
      async [Symbol.asyncDispose]() {
        client.disconnect();
        await server[Symbol.asyncDispose]();
      },
    };
  },
};

const file: BusKind = {
  name: "a folder",
  missing: undefined,
  async start() {
    const dir = await mkdtemp(join(tmpdir(), "relay-far-file-"));
    return {
      plugin: toFile({ name: "bus", dir }),
      factory: "toFile",
      call: `toFile({ name: "bus", dir: ${JSON.stringify(dir)} })`,
      url: "file://bus/deposits/paid",
      async arrived() {
        const names = await readdir(dir, { recursive: true });
        const texts = await Promise.all(
          names.filter((name) => name.includes(".ndjson")).map((name) => readFile(join(dir, name), "utf8")),
        );
        // The last line may be about to be written.
        return texts
          .flatMap((text) => text.split("\n").slice(0, -1))
          .map((line) => {
            const { headers, body } = JSON.parse(line) as { headers: Record<string, string>; body: string };
            return { headers, body: Buffer.from(body) };
          });
      },
      [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
    };
  },
};

export const BUSES: readonly BusKind[] = [file, redis, nats, rabbit];
