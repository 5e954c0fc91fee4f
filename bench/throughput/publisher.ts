// Publishes one event a request over kept connections, as cheaply as can be: it shares the cores with what is measured.
import { connect, type Socket } from "node:net";
import { nowMs, publication } from "./event.ts";
import type { PublishReply, PublishRequest } from "./messages.ts";

const ACCEPTED = Buffer.from("HTTP/1.1 202");
const LENGTH = /content-length: *(\d+)/i;

/** One kept connection. `send` resolves to whether the answer was a 202. */
class Line {
  #socket: Socket;
  #seen: Buffer = Buffer.alloc(0);
  #done: ((accepted: boolean) => void) | undefined;
  #head: string;

  constructor(socket: Socket, head: string) {
    this.#socket = socket;
    this.#head = head;
    socket.setNoDelay(true);
    socket.on("data", (part: Buffer) => this.#read(part));
    socket.on("error", () => this.#end(false));
    socket.on("close", () => this.#end(false));
  }

  static async open(port: number, token: string): Promise<Line> {
    const length = Buffer.byteLength(publication());
    const head =
      `POST /events HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
    const socket = connect(port, "127.0.0.1");
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return new Line(socket, head);
  }

  send(): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#socket.destroyed) return resolve(false);
      this.#done = resolve;
      this.#socket.write(this.#head + publication());
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(part: Buffer): void {
    this.#seen = this.#seen.length === 0 ? part : Buffer.concat([this.#seen, part]);
    const headEnd = this.#seen.indexOf("\r\n\r\n");
    if (headEnd < 0) return;
    const length = LENGTH.exec(this.#seen.toString("latin1", 0, headEnd))?.[1];
    const complete =
      length === undefined
        ? this.#seen.subarray(-5).equals(Buffer.from("0\r\n\r\n"))
        : this.#seen.length >= headEnd + 4 + Number(length);
    if (!complete) return;
    const accepted = this.#seen.subarray(0, ACCEPTED.length).equals(ACCEPTED);
    if (!accepted) process.stderr.write(`${this.#seen.toString("latin1", 0, 600)}\n`);
    this.#seen = Buffer.alloc(0);
    this.#end(accepted);
  }

  #end(accepted: boolean): void {
    const done = this.#done;
    this.#done = undefined;
    done?.(accepted);
  }
}

async function run({ port, token, connections, seconds, rate }: PublishRequest): Promise<PublishReply> {
  const lines = await Promise.all(Array.from({ length: connections }, () => Line.open(port, token)));
  let accepted = 0;
  let refused = 0;
  const one = async (line: Line): Promise<void> => {
    if (await line.send()) accepted++;
    else refused++;
  };
  const from = nowMs();
  const until = from + seconds * 1_000;
  if (rate === undefined) {
    await Promise.all(
      lines.map(async (line) => {
        while (nowMs() < until && refused < 100) await one(line);
      }),
    );
  } else {
    await paced(lines, one, from, until, rate);
  }
  const to = nowMs();
  for (const line of lines) line.close();
  return { accepted, refused, from, to };
}

/** Sends `rate` events a second, each on a free line; without one it falls behind, and the latencies show it. */
async function paced(
  lines: readonly Line[],
  one: (line: Line) => Promise<void>,
  from: number,
  until: number,
  rate: number,
): Promise<void> {
  const free = [...lines];
  const busy = new Set<Promise<void>>();
  let sent = 0;
  while (nowMs() < until) {
    const due = Math.floor(((nowMs() - from) * rate) / 1_000);
    while (sent < due && free.length > 0) {
      const line = free.pop() as Line;
      sent++;
      const done = one(line).then(() => {
        free.push(line);
        busy.delete(done);
      });
      busy.add(done);
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(busy);
}

process.on("message", (request: PublishRequest) => {
  run(request).then(
    (reply) => process.send?.(reply),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on("disconnect", () => process.exit(0));
