// The connector of fromPostgres, with a server that falls silent, or never says a word.
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import pg from "pg";
import { expect, it } from "vitest";
import { fromPostgres } from "../../plugins/source/postgres.ts";
import { createConnector } from "../../plugins/brokers/postgres.ts";
import { openSource } from "../support/message-plugin.ts";
import { pacedClock } from "../support/paced-clock.ts";

/** AuthenticationOk and ReadyForQuery. */
const READY = Buffer.from("R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", "latin1");

it("an idle connection whose server is gone without a word is closed all the same", async () => {
  const open: Socket[] = [];
  // Greets the client, and from then on answers nothing, not even its FIN.
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.push(socket);
    socket.on("error", () => {}).on("data", () => {});
    socket.once("data", () => socket.write(READY));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const { port } = server.address() as AddressInfo;
    const clock = pacedClock((ms) => ms / 100);
    const connection = await createConnector(
      pg,
      `postgres://user@127.0.0.1:${port}/db`,
      clock,
    )(new AbortController().signal);
    await connection.close();
    expect(clock.waited).toEqual([expect.closeTo(2_000, -2)]);
  } finally {
    for (const socket of open) socket.destroy();
    server.close();
  }
});

/** A server says it to the first bytes of a client, and from then on nothing; nothing at all: it is still connecting. */
const SAID = [
  ["is connecting", Buffer.alloc(0)],
  ["is asking for the tables", READY],
] as const;

it.each(SAID)("a source that %s when it is stopped waits for no answer", async (_, said) => {
  const open: Socket[] = [];
  const asked = Promise.withResolvers<void>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.push(socket);
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.on("data", () => asked.resolve());
      if (said.length === 0) asked.resolve();
      else socket.write(said);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const { port } = server.address() as AddressInfo;
    const clock = pacedClock((ms) => ms);
    const { source, desk } = await openSource(fromPostgres({ url: `postgres://user@127.0.0.1:${port}/db` }), { clock });
    await source.start(desk.intake.accept, { durability: "fsync" });
    await asked.promise;
    await source.stop();
    expect(clock.waited.filter((ms) => ms > 1_500)).toEqual([]);
  } finally {
    for (const socket of open) socket.destroy();
    server.close();
  }
});
