/**
 * SQS and S3 as moto's server plays them (PyPI, pinned in tools/moto.txt), behind a door that a test may shut: moto keeps what it
 * was told in memory, so a kill is that of the door, which cuts every connection and takes no new one.
 */
import { once } from "node:events";
import { existsSync } from "node:fs";
import {
  Agent,
  createServer,
  request,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { join } from "node:path";
import type { Socket } from "node:net";
import { findCommand } from "../../tools/find-program.ts";
import { freePort } from "../../tools/free-port.ts";
import { startServer } from "./server-process.ts";

const HERE = join(import.meta.dirname, "../../node_modules/.cache/moto");

/** Why there is no moto here, or undefined. @throws Error under CI=true, where it may not be missing */
export function needsMoto(): string | undefined {
  if (existsSync(join(HERE, "moto")) && findCommand("python3") !== undefined) return undefined;
  const reason = "needs moto (PyPI), which tools/setup.mjs installs where Python is";
  if (process.env["CI"] === "true") throw new Error(`${reason}; run node tools/setup.mjs`);
  return reason;
}

export interface Moto extends AsyncDisposable {
  /** That of the door. */
  readonly port: number;
  readonly endpoint: string;
  /** A request for which it returns true is answered as one that a policy denies. */
  deny(denied: (method: string, path: string, headers: IncomingHttpHeaders) => boolean): void;
  /** Takes requests and answers none. */
  pause(): void;
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** What the clients of the tests, and of relays in processes of their own, log in with. */
export const AWS_LOGIN = { region: "eu-central-1", accessKeyId: "test", secretAccessKey: "test" } as const;

/** @param env such as `INITIAL_NO_AUTH_ACTION_COUNT=0`, with which moto compares credentials */
export async function startMoto(env: Readonly<Record<string, string>> = {}): Promise<Moto> {
  const [inner, port] = [await freePort(), await freePort()];
  const moto = await startServer({
    command: findCommand("python3") ?? "python3",
    args: ["-m", "moto.server", "-H", "127.0.0.1", "-p", String(inner)],
    env: { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "", PYTHONPATH: HERE, ...env },
    ready: async () => (await fetch(`http://127.0.0.1:${inner}/moto-api/data.json`)).ok,
  });
  const agent = new Agent({ keepAlive: true });
  const sockets = new Set<Socket>();
  let paused = false;
  let denied = (_method: string, _path: string, _headers: IncomingHttpHeaders): boolean => false;
  let door: Server;

  function pass(asked: IncomingMessage, answer: ServerResponse): void {
    const { method = "", url: path = "", headers } = asked;
    if (denied(method, path, headers)) {
      asked.resume();
      const code = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
      answer.writeHead(403, { "content-type": "application/xml" }).end(code);
      return;
    }
    const inside = request({ agent, port: inner, host: "127.0.0.1", method, path, headers }, (reply) => {
      if (paused) return void reply.resume();
      answer.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(answer);
    });
    inside.on("error", () => answer.destroy());
    answer.on("close", () => answer.writableFinished || inside.destroy());
    asked.pipe(inside);
  }
  async function start(): Promise<void> {
    paused = false;
    door = createServer(pass).on("connection", (socket: Socket) => {
      sockets.add(socket.on("close", () => sockets.delete(socket)));
    });
    door.listen(port, "127.0.0.1");
    await once(door, "listening");
  }
  async function kill(): Promise<void> {
    const closed = new Promise((resolve) => void door.close(resolve));
    for (const socket of sockets) socket.resetAndDestroy();
    await closed;
  }
  await start();
  return {
    port,
    endpoint: `http://127.0.0.1:${port}`,
    deny: (given) => void (denied = given),
    pause: () => void (paused = true),
    kill,
    start,
    async [Symbol.asyncDispose]() {
      await kill();
      agent.destroy();
      await moto[Symbol.asyncDispose]();
    },
  };
}
