/** A TCP relay between a client and a server, which a test can turn into a black hole, or cut. */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";

export interface TcpShim extends AsyncDisposable {
  readonly port: number;
  /** From now on nothing comes through, in either direction, and nothing is closed: new connections too lead nowhere. */
  swallow(): void;
  /** Lets everything through again; what was swallowed meanwhile is lost with its connections only when `cut`. */
  pass(): void;
  /** Answers of the server are lost, its commands arrive. */
  swallowReplies(): void;
  /** Connections to Redis that have subscribed hear nothing any more; all else comes through. */
  hush(): void;
  /** Resets every connection. */
  cut(): void;
  /** New connections lead to another port of this machine. */
  aim(port: number): void;
}

export async function tcpShim(target: number): Promise<TcpShim> {
  let port = target;
  let requests = true;
  let replies = true;
  let hushed = false;
  const subscribed = new Set<readonly [Socket, Socket]>();
  const pairs = new Set<readonly [Socket, Socket]>();

  function flow(pair: readonly [Socket, Socket]): void {
    const [client, server] = pair;
    if (requests) client.resume();
    else client.pause();
    if (replies && !(hushed && subscribed.has(pair))) server.resume();
    else server.pause();
  }

  const listener = createServer((client) => {
    const server = connect(port, "127.0.0.1");
    const pair = [client, server] as const;
    pairs.add(pair);
    const end = (): void => {
      pairs.delete(pair);
      subscribed.delete(pair);
      client.destroy();
      server.destroy();
    };
    for (const socket of pair) socket.on("error", end).on("close", end);
    client.on("data", (chunk: Buffer) => {
      if (/\r\nsubscribe\r\n/i.test(chunk.toString("latin1"))) {
        subscribed.add(pair);
        flow(pair);
      }
      server.write(chunk);
    });
    server.on("data", (chunk) => void client.write(chunk));
    flow(pair);
  }).listen(0, "127.0.0.1");
  await once(listener, "listening");

  const set = (toServer: boolean, toClient: boolean): void => {
    requests = toServer;
    replies = toClient;
    for (const pair of pairs) flow(pair);
  };
  return {
    port: (listener.address() as AddressInfo).port,
    swallow: () => set(false, false),
    swallowReplies: () => set(true, false),
    hush() {
      hushed = true;
      set(requests, replies);
    },
    pass() {
      hushed = false;
      set(true, true);
    },
    cut() {
      for (const [client, server] of pairs) {
        client.resetAndDestroy();
        server.destroy();
      }
    },
    aim(to) {
      port = to;
    },
    async [Symbol.asyncDispose]() {
      for (const [client, server] of pairs) {
        client.destroy();
        server.destroy();
      }
      listener.close();
      await once(listener, "close");
    },
  };
}
