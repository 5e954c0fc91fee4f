// One Redis server that may be killed, stopped and cut off: a process of our own, and a line to it that we hold.
import { connect } from "node:net";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../free-port.ts";
import { findCommand } from "../find-program.ts";
import { openLine } from "./line.ts";
import { sleep, start, type Started } from "./process.ts";

export interface RedisServer {
  /** Of the line, by which everybody else knows it. */
  readonly port: number;
  /** Begins on the data that is there, and resolves when it answers. */
  begin(): Promise<void>;
  kill(): Promise<void>;
  signal(name: "SIGSTOP" | "SIGCONT"): void;
  /** Nothing goes through any more, and nobody learns of it. */
  hole(): void;
  /** Resets every connection; what was swallowed is gone with them. */
  drop(): void;
  mend(): void;
  /** One command, not through the line. @returns the beginning of the raw reply; empty when there is none in time */
  ask(...parts: readonly string[]): Promise<string>;
  end(): Promise<void>;
}

/** Each answer is on its disk. `port` is where it is known to be, for who replicates it or watches it. */
const durable = (port: number): readonly string[] => [
  'save ""',
  "appendonly yes",
  "appendfsync always",
  "repl-diskless-sync-delay 0",
  "replica-announce-ip 127.0.0.1",
  `replica-announce-port ${port}`,
];

/** @param lines of its configuration, as many as it needs to be no server of data */
export async function openServer(folder: string, lines?: readonly string[]): Promise<RedisServer> {
  const program = findCommand("redis-server");
  if (program === undefined) throw new Error("redis-server is not installed");
  await mkdir(folder, { recursive: true });
  const own = await freePort();
  let server: Started | undefined;

  const line = await openLine(own);
  const { port } = line;
  const file = join(folder, "redis.conf");
  const config = [`port ${own}`, "bind 127.0.0.1", `dir ${folder}`, ...(lines ?? durable(port))];
  await writeFile(file, `${config.join("\n")}\n`);

  const ask = (...parts: readonly string[]): Promise<string> => command(own, parts);
  async function kill(): Promise<void> {
    server?.signal("SIGKILL");
    server?.signal("SIGCONT");
    await server?.gone;
  }
  async function begin(): Promise<void> {
    server = start([program as string, file, ...(lines === undefined ? [] : ["--sentinel"])]);
    while (!(await ask("PING")).startsWith("+PONG")) {
      if (!server.alive()) throw new Error(`redis-server ended: ${server.said()}`);
      await sleep(10);
    }
  }

  await begin();
  return {
    port,
    begin,
    kill,
    signal: (name) => server?.signal(name),
    hole: line.hole,
    drop: line.drop,
    mend: line.mend,
    ask,
    async end() {
      line.end();
      await kill();
    },
  };
}

const ANSWER_MS = 500;

function command(port: number, parts: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    const end = (): void => {
      socket.destroy();
      resolve(text);
    };
    const timer = setTimeout(end, ANSWER_MS);
    socket.on("error", end).on("close", () => {
      clearTimeout(timer);
      end();
    });
    socket.on("data", (chunk) => {
      text += chunk.toString();
      if (isWhole(text)) end();
    });
    socket.write(`*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join("")}`);
  });
}

/** A line, or a bulk string with all its bytes; of lists, the first packet does. */
function isWhole(text: string): boolean {
  const bulk = /^\$(\d+)\r\n/.exec(text);
  return bulk === null ? text.includes("\r\n") : text.length >= bulk[0].length + Number(bulk[1]);
}
