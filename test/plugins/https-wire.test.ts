/** The byte stream under an HTTP/2 session, when the receiver ends its side first. */
import { once } from "node:events";
import { connect } from "node:http2";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { expect, it } from "vitest";
import { Wire } from "../../plugins/transport/https/wire.ts";

const CANCEL = 8;

it("a connection that the receiver has ended is closed, though nothing can be written to it any more", async () => {
  const socket = new Duplex({
    read: () => undefined,
    write: (_chunk, _encoding, done) => done(),
    // Never done: the other side takes no more bytes.
    final: () => undefined,
  });
  const session = connect("https://far.example", { createConnection: () => new Wire(socket as Socket, () => true) });
  session.on("error", () => undefined);
  const stream = session.request({ ":method": "POST" }).on("error", () => undefined);
  const closed = once(session, "close");
  await once(session, "connect");
  socket.push(null);
  await once(socket, "end");
  await new Promise((resolve) => setImmediate(resolve));
  // Node's session writes to a connection that is being shut down, and fails an assertion of its own.
  expect(() => stream.close(CANCEL)).not.toThrow();
  await closed;
  expect(socket.destroyed).toBe(true);
});
