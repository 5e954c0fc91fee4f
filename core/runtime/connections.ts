/** The connections of the server: requests of one are carried out one after the other, so it holds one answer at a time. */
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";

export type Handler = (req: IncomingMessage, res: ServerResponse) => void;

/** A connection with more unanswered requests is destroyed: pausing it does not stop Node's parser. */
const MOST_UNANSWERED = 32;
/** Most requests that wait behind another one of their connection, over all connections: each takes about 2 KB. */
const MOST_WAITING = 8_192;

interface Turn {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly carryOut: Handler;
}

interface Connection {
  /** The unanswered requests, of which the first is carried out. */
  readonly turns: Turn[];
  /** True once a request has come on it. */
  isUsed: boolean;
  /** The status of the answer that ends the connection, once nothing more can be read from it. */
  refused?: number;
}

/** The status for an error of Node's parser or of its time limits; `undefined` for one of the network or of TLS. */
export function statusOf(code = ""): number | undefined {
  if (code === "HPE_HEADER_OVERFLOW") return 431;
  if (code === "HPE_CHUNK_EXTENSIONS_OVERFLOW") return 413;
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return 408;
  return code.startsWith("HPE_") ? 400 : undefined;
}

/** Returns an answer that names no path and no fault, since too little is known of such a request (RFC 9457 §4.2.1). */
function shortProblem(status: number): { readonly headers: Readonly<Record<string, string>>; readonly body: string } {
  const body = JSON.stringify({ type: "about:blank", title: STATUS_CODES[status], status });
  const headers = {
    "Content-Type": "application/problem+json",
    "Content-Length": String(Buffer.byteLength(body)),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
  };
  return { headers, body };
}

function written(status: number): string {
  const { headers, body } = shortProblem(status);
  const lines = Object.entries({ ...headers, Connection: "close" }).map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, "", body].join("\r\n");
}

/** Ends a connection that is refused, after what is written: with a short problem, unless an answer has begun. */
function end(socket: Socket, { turns, refused = 400 }: Connection): void {
  if (socket.writable && !turns[0]?.res.headersSent) socket.end(written(refused));
  socket.destroySoon();
}

/** Answers a request that expects something other than to be told to go on. */
export function refuseExpectation(_req: IncomingMessage, res: ServerResponse): void {
  const { headers, body } = shortProblem(417);
  res.writeHead(417, headers).end(body);
}

export class Connections {
  readonly #all = new Map<Socket, Connection>();
  #draining = false;
  /** Requests that wait behind another one of their connection. */
  #waiting = 0;

  add(socket: Socket): void {
    if (this.#draining) return void socket.destroy();
    const connection: Connection = { turns: [], isUsed: false };
    this.#all.set(socket, connection);
    socket.once("close", () => {
      this.#all.delete(socket);
      this.#dropWaiting(connection);
    });
  }

  /** Carries a request out when those before it on its connection are answered. */
  take(carryOut: Handler, req: IncomingMessage, res: ServerResponse): void {
    const connection = this.#all.get(req.socket);
    if (connection === undefined) return void req.socket.destroy();
    connection.isUsed = true;
    const length = connection.turns.push({ req, res, carryOut });
    if (length === 1) this.#begin(connection);
    else if (++this.#waiting > MOST_WAITING || length > MOST_UNANSWERED) req.socket.destroy();
  }

  #begin(connection: Connection): void {
    const [first] = connection.turns;
    // Nobody hears of a request behind an answer that ended the connection, and nobody may have sent it (RFC 9112 §9.6).
    if (first === undefined || !first.req.socket.writable) return;
    const { req, res, carryOut } = first;
    // Of a connection on which an upgrade was asked for and refused, Node reads nothing more.
    if (this.#isLast(connection) || req.headers.upgrade !== undefined) res.shouldKeepAlive = false;
    res.once("close", () => {
      const last = this.#isLast(connection);
      connection.turns.shift();
      if (connection.turns.length > 0) this.#waiting--;
      if (connection.refused !== undefined) end(req.socket, connection);
      else if (last) req.socket.destroySoon();
      else this.#begin(connection);
    });
    carryOut(req, res);
  }

  #dropWaiting({ turns }: Connection): void {
    this.#waiting -= turns.splice(1).length;
  }

  #isLast({ turns }: Connection): boolean {
    return this.#draining && turns.length === 1;
  }

  /**
   * Ends a connection on which nothing more can be read. A whole request is answered first: it may be stored.
   * @param status of the last answer; without it nobody is there to read one
   */
  refuse(socket: Socket, status: number | undefined): void {
    const connection = this.#all.get(socket);
    // One that is not known is in its TLS handshake.
    if (connection === undefined || status === undefined) return void socket.destroy();
    if (connection.refused !== undefined) return;
    connection.refused = status;
    this.#dropWaiting(connection);
    if (!connection.turns[0]?.req.complete) end(socket, connection);
  }

  /** Destroys a silent connection that is idle, or whose client does not read its answer. */
  cutStalled(socket: Socket): void {
    if (!this.#all.get(socket)?.turns.length || socket.writableLength > 0) socket.destroy();
  }

  /**
   * Ends each connection once its answer is sent. Answers without an end hear `draining` from their socket.
   * A new one is waited for until `closeUnused`: its first request is on its way, and its sender may not send it again.
   */
  drain(): void {
    this.#draining = true;
    for (const [socket, { turns, isUsed }] of this.#all) {
      // An idle connection has been answered; closing it loses nothing.
      if (turns.length > 0) socket.emit("draining");
      else if (isUsed) socket.destroy();
    }
  }

  closeUnused(): void {
    for (const [socket, { isUsed }] of this.#all) if (!isUsed) socket.destroy();
  }
}
