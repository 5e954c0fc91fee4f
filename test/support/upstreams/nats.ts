/** NATS JetStream as an upstream: a stream with a consumer, and a stream of dead letters. */
import {
  jetstream,
  jetstreamManager,
  type ConsumerConfig,
  type ConsumerInfo,
  type JetStreamClient,
  type JetStreamManager,
} from "@nats-io/jetstream";
import { connect, headers, type NatsConnection } from "@nats-io/transport-node";
import { fromNats } from "../../../plugins/source/nats.ts";
import type { Upstream } from "../message-laws.ts";
import { startNats } from "../nats.ts";

export interface NatsUpstream extends Upstream {
  readonly connection: NatsConnection;
  readonly manager: JetStreamManager;
  readonly client: JetStreamClient;
  newStream(more?: Partial<ConsumerConfig>): Promise<string>;
  state(stream: string): Promise<ConsumerInfo>;
}

export async function natsUpstream(): Promise<NatsUpstream> {
  const server = await startNats();
  let connection: NatsConnection;
  let manager: JetStreamManager;
  let client: JetStreamClient;
  let count = 0;
  async function dial(): Promise<void> {
    connection = await connect({ servers: server.url, reconnect: false });
    manager = await jetstreamManager(connection);
    client = jetstream(connection);
  }
  await dial();
  const state = (stream: string) => manager.consumers.info(stream, "relay");
  const addDead = (stream: string) => manager.streams.add({ name: `${stream}-dead`, subjects: [`dead.${stream}`] });
  async function add(stream: string, more: Partial<ConsumerConfig> = {}): Promise<void> {
    await manager.streams.add({ name: stream, subjects: [stream] });
    await manager.consumers.add(stream, { durable_name: "relay", ack_policy: "explicit", ...more });
  }
  async function newStream(more: Partial<ConsumerConfig> = {}): Promise<string> {
    const stream = `orders${++count}`;
    await add(stream, more);
    return stream;
  }
  return {
    server,
    port: server.port,
    get connection() {
      return connection;
    },
    get manager() {
      return manager;
    },
    get client() {
      return client;
    },
    newStream,
    state,
    dial,
    from: fromNats,
    factory: "fromNats",
    async make() {
      const stream = await newStream({ ack_wait: 1_000e6 });
      await addDead(stream);
      return stream;
    },
    options: (stream, maxInFlight, port = server.port) => ({
      ...{ servers: `nats://127.0.0.1:${port}`, stream, consumer: "relay", deadLetterSubject: `dead.${stream}` },
      ...(maxInFlight !== undefined && { maxInFlight }),
    }),
    send(subject, payloads, given = {}) {
      const out = headers();
      for (const [name, value] of Object.entries(given)) out.set(name, value);
      return Promise.all(payloads.map((one) => client.publish(subject, one, { headers: out })));
    },
    async left(stream) {
      const { num_pending, num_ack_pending } = await state(stream);
      return num_pending + num_ack_pending;
    },
    async dead(stream) {
      const info = await manager.streams.info(`${stream}-dead`).catch(() => undefined);
      const found = [];
      for (let seq = 1; seq <= (info?.state.messages ?? 0); seq++) {
        const message = await manager.streams.getMessage(`${stream}-dead`, { seq });
        found.push({ payload: message?.string() ?? "", code: message?.header.get("Relay-Code") });
      }
      return found;
    },
    async refuseDead(stream) {
      await manager.streams.delete(`${stream}-dead`);
      return () => addDead(stream);
    },
    async [Symbol.asyncDispose]() {
      await connection.close();
      await server[Symbol.asyncDispose]();
    },
  };
}
