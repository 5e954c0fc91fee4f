/** The guarded connector over real sockets: where it goes, in what order, and what it tells when it fails. */
import { createServer, Socket, connect as connectTcp } from "node:net";
import type { AddressInfo, Server } from "node:net";
import { TLSSocket } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { createGuard } from "../../core/guard/index.ts";
import type { Guard, GuardOptions } from "../../core/guard/index.ts";
import { ConnectError } from "../../core/model/errors.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { testAuthority } from "../support/certificates.ts";
import { testClock } from "../support/clock.ts";
import { startReceiver } from "../support/receiver.ts";

const never = new AbortController().signal;

const servers: Server[] = [];
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

/** A plain TCP server; resolves to its port. */
const listen = async (host = "127.0.0.1", port = 0): Promise<number> => {
  const server = createServer((socket) => void sockets.push(socket.on("error", () => undefined)));
  servers.push(server);
  await new Promise<void>((resolve, reject) => void server.once("error", reject).listen(port, host, resolve));
  return (server.address() as AddressInfo).port;
};

const guardOf = (options: Partial<GuardOptions> = {}): Guard =>
  createGuard({ allow: ["127.0.0.0/8:*", "[::1]:*"], ports: [443], clock: systemClock(), ...options });

const open = async (guard: Guard, hostname: string, port: number, signal = never): Promise<Socket> => {
  const socket = await guard.connect({ hostname, port, tls: false }, signal);
  sockets.push(socket);
  return socket;
};

describe("the connector", () => {
  it("speaks TLS, offers HTTP/1.1 alone, and verifies the name", async () => {
    await using receiver = await startReceiver();
    const guard = guardOf({ ca: receiver.ca, allow: ["localhost:*", "127.0.0.1:*"] });
    for (const hostname of ["localhost", "127.0.0.1"]) {
      const socket = await guard.connect({ hostname, port: receiver.port }, never);
      sockets.push(socket);
      expect(socket).toBeInstanceOf(TLSSocket);
      expect(socket).toMatchObject({ authorized: true, alpnProtocol: "http/1.1" });
      expect((socket as TLSSocket).getProtocol()).toBe("TLSv1.3");
    }
  });

  it("does not trust the test authority unless it is told to", async () => {
    await using receiver = await startReceiver();
    const refused = guardOf().connect({ hostname: "127.0.0.1", port: receiver.port }, never);
    await expect(refused).rejects.toMatchObject({ stage: "tls" });
  });

  it("reaches an IPv6 literal in brackets", async (test) => {
    const port = await listen("::1").catch(() => undefined);
    if (port === undefined) return test.skip("this machine has no IPv6 loopback");
    expect((await open(guardOf(), "[::1]", port)).remoteAddress).toBe("::1");
  });

  it("takes the next address when one is refused", async () => {
    const port = await listen("127.0.0.2");
    const resolver = () => Promise.resolve(["127.0.0.3", "127.0.0.2"]);
    const socket = await open(guardOf({ resolver }), "hooks.shop-example.com", port);
    expect(socket.remoteAddress).toBe("127.0.0.2");
  });

  it("tries the next address beside one that is silent, after its head start", async () => {
    const port = await listen();
    const clock = testClock();
    const silent = new Socket();
    const dialled: string[] = [];
    const guard = guardOf({
      clock,
      resolver: () => Promise.resolve(["127.0.0.9", "127.0.0.1"]),
      dial: (address) => {
        dialled.push(address);
        return address === "127.0.0.9" ? silent : connectTcp(port, address);
      },
    });
    const opening = open(guard, "hooks.shop-example.com", port);
    await clock.whenSleeping();
    expect(dialled).toEqual(["127.0.0.9"]);
    await clock.advance(250);
    expect((await opening).remoteAddress).toBe("127.0.0.1");
    expect(silent.destroyed).toBe(true);
    expect(clock.sleeping()).toEqual([]);
  });

  it("tells the stage and the reason when no address answers", async () => {
    const resolver = () => Promise.resolve(["127.0.0.3", "127.0.0.2"]);
    const opening = open(guardOf({ resolver }), "hooks.shop-example.com", 1);
    await expect(opening).rejects.toMatchObject({ stage: "connect", reason: "ECONNREFUSED" });
  });

  it("ends with the signal's reason, whatever it is doing, and leaves no socket", async () => {
    const reason = new Error("late");
    const silent = new Socket();
    const control = new AbortController();
    const resolving = open(
      guardOf({ resolver: () => new Promise(() => undefined) }),
      "a.shop-example.com",
      443,
      control.signal,
    );
    const dialling = open(guardOf({ dial: () => silent }), "127.0.0.1", 443, control.signal);
    const racing = open(
      guardOf({ dial: () => new Socket(), resolver: () => Promise.resolve(["127.0.0.1", "127.0.0.2"]) }),
      "a.shop-example.com",
      443,
      control.signal,
    );
    // A server that accepts and never answers a handshake.
    const port = await listen();
    const shaking = guardOf().connect({ hostname: "127.0.0.1", port }, control.signal);
    const ended = Promise.allSettled([resolving, dialling, racing, shaking]);
    await new Promise((resolve) => servers[0]?.once("connection", resolve));
    control.abort(reason);
    for (const one of await ended) expect(one).toMatchObject({ status: "rejected", reason });
    expect(silent.destroyed).toBe(true);
    await expect(open(guardOf(), "127.0.0.1", port, control.signal)).rejects.toBe(reason);
  });

  it("is not the far side's fault when this machine is out of descriptors", async () => {
    const dial = () => {
      const socket = new Socket();
      queueMicrotask(() => socket.destroy(Object.assign(new Error("connect EMFILE"), { code: "EMFILE" })));
      return socket;
    };
    const error: unknown = await open(guardOf({ dial }), "127.0.0.1", 443).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "EMFILE" });
    expect(error).not.toBeInstanceOf(ConnectError);
  });

  it("judges host and port as the text of a URL is judged", async () => {
    const guard = guardOf({ allow: [], resolver: () => Promise.resolve(["8.8.8.8"]) });
    for (const [hostname, port, reason] of [
      ["localhost", 443, "HOST_FORBIDDEN"],
      ["redis", 443, "HOST_FORBIDDEN"],
      ["hooks.shop-example.com", 6379, "URL_PORT"],
      ["127.0.0.1", 443, "IP_NOT_PUBLIC"],
      ["[::ffff:7f00:1]", 443, "IP_NOT_PUBLIC"],
      ["::1", 443, "IP_NOT_PUBLIC"],
      ["2130706433", 443, "HOST_INVALID"],
      ["127.1", 443, "HOST_INVALID"],
      ["[localhost]", 443, "HOST_INVALID"],
    ] as const)
      await expect(open(guard, hostname, port)).rejects.toMatchObject({ stage: "guard", reason });
  });

  it("refuses this machine's own addresses, and looks again when they may have changed", async () => {
    const clock = testClock();
    let own: readonly string[] = [];
    const dialled: string[] = [];
    const guard = guardOf({
      clock,
      ownAddresses: () => own,
      dial: (address) => {
        dialled.push(address);
        return connectTcp(1, "127.0.0.1");
      },
    });
    await expect(open(guard, "93.184.215.14", 443)).rejects.toMatchObject({ stage: "connect" });
    own = ["93.184.215.14", "2606:2800:0::0e"];
    await clock.advance(10_000);
    await expect(open(guard, "93.184.215.14", 443)).rejects.toMatchObject({ reason: "SELF_CONNECTION" });
    await expect(open(guard, "[2606:2800::e]", 443)).rejects.toMatchObject({ reason: "SELF_CONNECTION" });
    expect(dialled).toEqual(["93.184.215.14"]);
  });

  it("keeps a handshake that is cut apart from a connection that is cut", async () => {
    const port = await listen();
    servers[0]?.on("connection", (socket: Socket) => socket.destroy());
    await expect(guardOf().connect({ hostname: "127.0.0.1", port }, never)).rejects.toMatchObject({ stage: "tls" });
  });

  it("trusts what the operator adds beside the system's authorities, also several in one file", async () => {
    await using receiver = await startReceiver();
    const other = await testAuthority();
    const guard = guardOf({ ca: `# ours\n${other.ca}\nand again\n${receiver.ca}` });
    const socket = await guard.connect({ hostname: "127.0.0.1", port: receiver.port }, never);
    sockets.push(socket);
    expect(socket).toMatchObject({ authorized: true });
  });
});
