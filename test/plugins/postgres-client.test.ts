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

/** Greets a client with the bytes, and from then on answers nothing, not even its FIN. Runs the work with the server's URL. */
async function withSilent(said: Buffer, heard: () => void, work: (url: string) => Promise<void>): Promise<void> {
  const open: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.push(socket);
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.on("data", heard);
      if (said.length === 0) heard();
      else socket.write(said);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await work(`postgres://user@127.0.0.1:${(server.address() as AddressInfo).port}/db`);
  } finally {
    for (const socket of open) socket.destroy();
    server.close();
  }
}

it("an idle connection whose server is gone without a word is closed all the same", () =>
  withSilent(
    READY,
    () => {},
    async (url) => {
      const clock = pacedClock((ms) => ms / 100);
      const connection = await createConnector(pg, url, clock)(new AbortController().signal);
      await connection.close();
      expect(clock.waited).toEqual([expect.closeTo(2_000, -2)]);
    },
  ));

it.each([
  ["is connecting", Buffer.alloc(0)],
  ["is asking for the tables", READY],
])("a source that %s when it is stopped waits for no answer", async (_, said) => {
  const asked = Promise.withResolvers<void>();
  await withSilent(said, asked.resolve, async (url) => {
    const clock = pacedClock((ms) => ms);
    const { source, desk } = await openSource(fromPostgres({ url }), { clock });
    await source.start(desk.intake.accept, { durability: "fsync" });
    await asked.promise;
    await source.stop();
    expect(clock.waited.filter((ms) => ms > 1_500)).toEqual([]);
  });
});
