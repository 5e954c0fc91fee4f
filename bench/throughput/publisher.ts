// Publishes one event a request over kept connections, as cheaply as can be: it shares the cores with what is measured.
import { connect, type Socket } from "node:net";
import { nowMs, publication } from "./event.ts";
import type { PublishReply, PublishRequest } from "./messages.ts";

const ACCEPTED = "HTTP/1.1 202";
const HEAD_END = "\r\n\r\n";
const LENGTH = /content-length: *(\d+)/i;
/** Longer than any answer. */
const ANSWER_BYTES = 65_536;

/** One kept connection. `send` tells whether the answer was a 202. */
class Line {
  readonly #head: string;
  #socket: Socket | undefined;
  #seen = "";
  #done: ((accepted: boolean) => void) | undefined;

  constructor(head: string) {
    this.#head = head;
  }

  static async open(port: number, token: string): Promise<Line> {
    const length = Buffer.byteLength(publication());
    const line = new Line(
      `POST /events HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${length}${HEAD_END}`,
    );
    // Read past the stream, into one buffer for good: a stream would make objects of each answer.
    const buffer = Buffer.allocUnsafe(ANSWER_BYTES);
    const callback = (bytes: number): boolean => {
      line.#read(buffer.toString("latin1", 0, bytes));
      return true;
    };
    const socket = connect({ port, host: "127.0.0.1", noDelay: true, onread: { buffer, callback } });
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    socket.on("error", () => line.#end(false));
    socket.on("close", () => line.#end(false));
    line.#socket = socket;
    return line;
  }

  send(done: (accepted: boolean) => void): void {
    if (this.#socket === undefined || this.#socket.destroyed) return done(false);
    this.#done = done;
    this.#socket.write(this.#head + publication(), "latin1");
  }

  close(): void {
    this.#socket?.destroy();
  }

  #read(part: string): void {
    this.#seen = this.#seen === "" ? part : this.#seen + part;
    const headEnd = this.#seen.indexOf(HEAD_END);
    if (headEnd < 0) return;
    const length = LENGTH.exec(this.#seen)?.[1];
    if (length === undefined) throw new Error("an answer without a length");
    if (this.#seen.length < headEnd + HEAD_END.length + Number(length)) return;
    const accepted = this.#seen.startsWith(ACCEPTED);
    if (!accepted) process.stderr.write(`${this.#seen.slice(0, 600)}\n`);
    this.#seen = "";
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
  const counts = { accepted: 0, refused: 0 };
  const count = (accepted: boolean): void => void (accepted ? counts.accepted++ : counts.refused++);
  const from = nowMs();
  const until = from + seconds * 1_000;
  if (rate === undefined) {
    await Promise.all(lines.map((line) => flood(line, count, () => nowMs() < until && counts.refused < 100)));
  } else {
    await paced(lines, count, from, until, rate);
  }
  const to = nowMs();
  for (const line of lines) line.close();
  return { ...counts, from, to };
}

/** One event after the other, each as soon as the one before it is answered. */
const flood = (line: Line, count: (accepted: boolean) => void, more: () => boolean): Promise<void> =>
  new Promise((resolve) => {
    const next = (): void => {
      if (!more()) return resolve();
      line.send((accepted) => {
        count(accepted);
        next();
      });
    };
    next();
  });

/** Sends `rate` events a second, each on a free line; without one it falls behind, and the latencies show it. */
async function paced(
  lines: readonly Line[],
  count: (accepted: boolean) => void,
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
      const done = new Promise<void>((answered) => {
        line.send((accepted) => {
          count(accepted);
          free.push(line);
          answered();
        });
      }).then(() => void busy.delete(done));
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
