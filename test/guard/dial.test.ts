/** How a checked address is dialled: the peer is that address, and of several that answer one socket stays. */
import { once } from "node:events";
import { createServer, Socket, connect as connectTcp } from "node:net";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { dialFirst } from "../../core/guard/dial.ts";
import { ConnectError } from "../../core/model/errors.ts";
import { testClock, turn } from "../support/clock.ts";

const never = new AbortController().signal;

it("a connection whose peer is not the address that was checked is refused and closed", async () => {
  const server = createServer((socket) => void socket.on("error", () => undefined)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  let dialled: Socket | undefined;
  // As where something on the way, or in this process, leads the connection elsewhere.
  const dial = (): Socket => (dialled = connectTcp(port, "127.0.0.1"));
  const error: unknown = await dialFirst(["203.0.113.9"], port, dial, testClock(), never).catch((reason) => reason);
  expect(error).toBeInstanceOf(ConnectError);
  expect(error).toMatchObject({ stage: "guard", reason: "PEER_NOT_PUBLIC" });
  expect(dialled?.destroyed).toBe(true);
  await new Promise((resolve) => server.close(resolve));
});

it("of two addresses that answer in the same turn one socket stays, and the other is closed", async () => {
  const clock = testClock();
  const sockets: Socket[] = [];
  const dial = (address: string): Socket => {
    const socket = new Socket();
    Object.defineProperty(socket, "remoteAddress", { value: address });
    sockets.push(socket);
    return socket;
  };
  const opening = dialFirst(["203.0.113.1", "203.0.113.2"], 443, dial, clock, never);
  await clock.whenSleeping();
  await clock.advance(250);
  expect(sockets).toHaveLength(2);
  for (const socket of sockets) socket.emit("connect");
  const first = await opening;
  await turn();
  expect(sockets.map((socket) => [socket === first, socket.destroyed])).toEqual([
    [true, false],
    [false, true],
  ]);
  first.destroy();
});

it("of several addresses the next is dialled at once when one refuses", async () => {
  const sockets: Socket[] = [];
  const dial = (address: string): Socket => {
    const socket = new Socket();
    Object.defineProperty(socket, "remoteAddress", { value: address });
    sockets.push(socket);
    return socket;
  };
  const opening = dialFirst(["203.0.113.1", "203.0.113.2"], 443, dial, testClock(), never);
  sockets[0]?.emit("error", Object.assign(new Error("refused"), { code: "ECONNREFUSED" }));
  await turn();
  expect(sockets).toHaveLength(2);
  sockets[1]?.emit("connect");
  expect(await opening).toBe(sockets[1]);
  sockets[1]?.destroy();
});

it("of many addresses that are all silent no more than eight are dialled", async () => {
  const clock = testClock();
  const dialled: string[] = [];
  const dial = (address: string): Socket => {
    dialled.push(address);
    return new Socket();
  };
  const end = new AbortController();
  const many = Array.from({ length: 64 }, (_, i) => `203.0.113.${i}`);
  const opening = dialFirst(many, 443, dial, clock, end.signal);
  await clock.whenSleeping();
  await clock.advance(30_000);
  expect(dialled).toEqual(many.slice(0, 8));
  end.abort(new Error("the attempt is over"));
  await expect(opening).rejects.toThrow("the attempt is over");
});
