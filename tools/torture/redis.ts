// A Redis that may be killed, stopped and cut off: a server of our own, and a line to it that we hold.
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { mkdir } from "node:fs/promises";
import { findProgram, freePort, sleep, start, type Started } from "./process.ts";

export interface TorturedRedis {
  /** Through the line that may be cut. */
  readonly url: string;
  kill(): Promise<void>;
  start(): Promise<void>;
  signal(name: "SIGSTOP" | "SIGCONT"): void;
  /** Nothing goes through any more, and nobody is told; or everything is reset at once. */
  cut(how: "hole" | "reset"): void;
  mend(): void;
  end(): Promise<void>;
}

export async function openRedis(folder: string): Promise<TorturedRedis> {
  const program = findProgram("redis-server");
  if (program === undefined) throw new Error("redis-server is not installed");
  await mkdir(folder, { recursive: true });
  const port = await freePort();
  const pairs = new Set<readonly [Socket, Socket]>();
  let holed = false;
  let server: Started | undefined;

  const line = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    const pair = [near, far] as const;
    pairs.add(pair);
    const end = (): void => {
      pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    near.on("error", end).on("close", end);
    far.on("error", end).on("close", end);
    near.on("data", (chunk) => void (holed || far.write(chunk)));
    far.on("data", (chunk) => void (holed || near.write(chunk)));
  });
  await new Promise<void>((done) => line.listen(0, "127.0.0.1", done));

  async function begin(): Promise<void> {
    const options = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""];
    const durable = ["--appendonly", "yes", "--appendfsync", "always"];
    server = start([program as string, ...options, ...durable]);
    while (!(await ping(port))) {
      if (!server.alive()) throw new Error(`redis-server ended: ${server.said()}`);
      await sleep(10);
    }
  }

  function drop(): void {
    for (const [near, far] of pairs) {
      near.resetAndDestroy();
      far.destroy();
    }
  }

  await begin();
  return {
    url: `redis://127.0.0.1:${(line.address() as AddressInfo).port}`,
    start: begin,
    async kill() {
      server?.signal("SIGKILL");
      await server?.gone;
    },
    signal: (name) => server?.signal(name),
    cut(how) {
      if (how === "hole") holed = true;
      else drop();
    },
    mend() {
      if (!holed) return;
      holed = false;
      // What was swallowed is gone: a connection that missed some of its bytes must not go on.
      drop();
    },
    async end() {
      drop();
      line.close();
      server?.signal("SIGKILL");
      server?.signal("SIGCONT");
      await server?.gone;
    },
  };
}

function ping(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const end = (good: boolean): void => {
      socket.destroy();
      resolve(good);
    };
    socket.on("error", () => end(false)).on("close", () => end(false));
    socket.on("data", (chunk) => end(chunk.toString().startsWith("+PONG")));
    socket.write("PING\r\n");
    setTimeout(() => end(false), 500).unref();
  });
}
