// Publishes over kept connections, as cheaply as can be: it shares the cores with what is measured.
import { connect, type Socket } from "node:net";
import { CONNECTIONS, eventsIn, type Form, KEY_ID, lastNumber, nowMs, request, stamp, typeOf } from "./event.ts";
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

  static async open(port: number, token: string, form: Form, keyId: string): Promise<Line> {
    const length = Buffer.byteLength(request(form, keyId));
    const line = new Line(
      `POST /events HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n` +
        `Content-Type: ${typeOf(form)}\r\nContent-Length: ${length}${HEAD_END}`,
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

  send(body: string, done: (accepted: boolean) => void): void {
    if (this.#socket === undefined || this.#socket.destroyed) return done(false);
    this.#done = done;
    this.#socket.write(this.#head + body, "latin1");
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

async function run(wanted: PublishRequest): Promise<PublishReply> {
  const {
    port,
    ports = [port],
    token,
    connections = CONNECTIONS,
    seconds,
    rate,
    form = "single",
    keyId = KEY_ID,
  } = wanted;
  const most = wanted.most ?? Number.POSITIVE_INFINITY;
  const lines = await Promise.all(
    Array.from({ length: connections }, (_, i) => Line.open(ports[i % ports.length] as number, token, form, keyId)),
  );
  const counts = { sent: 0, accepted: 0, refused: 0 };
  const first = lastNumber() + 1;
  const acceptedAt: number[] = [];
  const from = nowMs();
  const until = from + seconds * 1_000;
  const sending: Sending = {
    begin(line, at, ended) {
      const from = acceptedAt.length;
      for (let i = 0; i < eventsIn(form); i++) acceptedAt.push(Number.NaN);
      line.send(request(form, keyId, at), (accepted) => {
        if (accepted) acceptedAt.fill(nowMs(), from, from + eventsIn(form));
        counts[accepted ? "accepted" : "refused"]++;
        ended();
      });
    },
    more: () => nowMs() < until && counts.refused < 100 && counts.sent++ < most,
  };
  await (rate === undefined
    ? Promise.all(lines.map((line) => flood(line, sending)))
    : paced(lines, sending, from, until, rate));
  const to = nowMs();
  for (const line of lines) line.close();
  return { accepted: counts.accepted * eventsIn(form), refused: counts.refused, from, to, first, acceptedAt };
}

interface Sending {
  /** Sends the next request, with the time from which it counts. */
  begin(line: Line, at: string, ended: () => void): void;
  /** True when another request is to be sent. */
  more(): boolean;
}

/** One request after the other, each as soon as the one before it is answered. */
const flood = (line: Line, { begin, more }: Sending): Promise<void> =>
  new Promise((resolve) => {
    const next = (): void => {
      if (!more()) return resolve();
      begin(line, stamp(), next);
    };
    next();
  });

/**
 * `rate` requests a second, whatever answers take (an open loop). What is due while no line is free waits here, and its
 * time counts from when it was due.
 */
async function paced(
  lines: readonly Line[],
  { begin, more }: Sending,
  from: number,
  until: number,
  rate: number,
): Promise<void> {
  const free = [...lines];
  const waiting: string[] = [];
  let made = 0;
  let open = 0;
  const next = (): void => {
    for (let at = waiting[0]; at !== undefined && free.length > 0; at = waiting[0]) {
      waiting.shift();
      if (!more()) return void (waiting.length = 0);
      const line = free.pop() as Line;
      open++;
      begin(line, at, () => {
        free.push(line);
        open--;
        next();
      });
    }
  };
  while (nowMs() < until || open > 0) {
    const due = Math.floor(((Math.min(nowMs(), until) - from) * rate) / 1_000);
    for (const at = stamp(); made < due; made++) waiting.push(at);
    next();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

process.on("message", (wanted: PublishRequest) => {
  run(wanted).then(
    (reply) => process.send?.(reply),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on("disconnect", () => process.exit(0));
