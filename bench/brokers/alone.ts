// The client of each source alone: it reads and acknowledges messages as the source does, and stores nothing. What is slower
// than this is the relay's doing, and what is not is the client's and the server's.
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect as connectNats } from "@nats-io/transport-node";
import { connect as connectAmqp } from "amqplib";
import { Redis } from "ioredis";
import pg from "pg";

/** Reads so many messages, which are all there, and resolves when they are acknowledged. */
export type Take = (count: number) => Promise<void>;

/** Messages that are acknowledged, or read, together: as many as a source stores at once. */
const GROUP = 500;
const PREFETCH = 2_000;
/** The servers end before the connections to them do. */
const quiet = (): void => {};

export async function takeAmqp(url: string, queue: string): Promise<Take> {
  const model = await connectAmqp(url);
  model.on("error", quiet);
  return async (count) => {
    const channel = await model.createChannel();
    await channel.prefetch(PREFETCH);
    const all = Promise.withResolvers<void>();
    let taken = 0;
    await channel.consume(queue, (message) => {
      if (message === null) return all.reject(new Error(`the queue ${queue} is gone`));
      if (++taken % GROUP === 0 || taken === count) channel.ack(message, true);
      if (taken === count) all.resolve();
    });
    await all.promise;
    await channel.close();
  };
}

export async function takeNats(url: string, stream: string, subject: string): Promise<Take> {
  const connection = await connectNats({ servers: url });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: stream, subjects: [subject] });
  await manager.consumers.add(stream, { durable_name: "alone", ack_policy: "explicit" });
  const consumer = await jetstream(connection).consumers.get(stream, "alone");
  return async (count) => {
    for (let left = count; left > 0;) {
      for await (const message of await consumer.fetch({ max_messages: Math.min(left, 2 * GROUP), expires: 5_000 })) {
        message.ack();
        left--;
      }
    }
    await connection.flush();
  };
}

export async function takeRedis(url: string, stream: string): Promise<Take> {
  const client = new Redis(url);
  client.on("error", quiet);
  await client.xgroup("CREATE", stream, "alone", "0", "MKSTREAM");
  const read = ["GROUP", "alone", "one", "COUNT", GROUP, "STREAMS", stream, ">"];
  return async (count) => {
    for (let left = count; left > 0;) {
      const [[, entries]] = (await client.callBuffer("XREADGROUP", ...read)) as [[Buffer, [Buffer, unknown][]]];
      await client.xack(stream, "alone", ...entries.map(([id]) => id));
      left -= entries.length;
    }
  };
}

/** @param done ends what was read; nothing for a table that is only followed */
export async function takePostgres(url: string, table: string, done: boolean): Promise<Take> {
  const client = new pg.Client({ connectionString: url, types: { getTypeParser: () => (text: unknown) => text } });
  client.on("error", quiet);
  await client.connect();
  let after = "0";
  return async (count) => {
    for (let left = count; left > 0;) {
      const from = `SELECT * FROM ${table} WHERE id > ${after} ORDER BY id LIMIT ${GROUP}`;
      const answer: unknown = await client.query(done ? `BEGIN; ${from} FOR UPDATE SKIP LOCKED` : from);
      const { rows } = (Array.isArray(answer) ? answer.at(-1) : answer) as { readonly rows: { readonly id: string }[] };
      const ids = rows.map(({ id }) => id);
      if (done) await client.query(`DELETE FROM ${table} WHERE id IN (${ids.join()}); COMMIT`);
      after = ids.at(-1) ?? after;
      left -= rows.length;
    }
  };
}
