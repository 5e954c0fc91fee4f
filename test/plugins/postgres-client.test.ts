// The connector of fromPostgres, with a server that falls silent.
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import pg from "pg";
import { expect, it } from "vitest";
import { createConnector } from "../../plugins/source/postgres/client.ts";
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
    const connection = await createConnector(pg, `postgres://user@127.0.0.1:${port}/db`, clock)();
    await connection.close();
    expect(clock.waited).toEqual([expect.closeTo(2_000, -2)]);
  } finally {
    for (const socket of open) socket.destroy();
    server.close();
  }
});
