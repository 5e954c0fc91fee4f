/**
 * Keeps the answers of one connection true to its requests. A publisher that sends several at once must not take the answer
 * to one for that of another, nor be left without the answer to what was stored.
 */
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { answersHalfClosed } from "../api/http/half-closed.ts";

/** What Node keeps with a connection: the answer that is written now, and who reads the requests. */
interface Connection extends Socket {
  readonly _httpMessage?: ServerResponse | null;
  readonly parser?: { readonly incoming?: IncomingMessage | null } | null;
}

/** The newest request of each connection on which several were under way at once. */
const newest = new WeakMap<Socket, ServerResponse>();

/**
 * Whether a request came after one whose answer ends the connection. It must not be carried out (RFC 9112 §9.6): nobody will
 * hear of it, and behind a head that two servers read differently it may be one that nobody sent.
 */
export function comesTooLate(req: IncomingMessage, res: ServerResponse): boolean {
  const { socket } = req;
  // That answer has gone already: bodies of requests that were read in one go come one after the other.
  if (!socket.writable) return true;
  const { _httpMessage: first } = socket as Connection;
  if (!first || first === res) return false;
  if (!first.shouldKeepAlive || newest.get(socket)?.shouldKeepAlive === false) return true;
  newest.set(socket, res);
  return false;
}

/** Connections that are answered as unreadable: what else comes on them is thrown away. */
const unreadable = new WeakSet<Socket>();

/**
 * Answers bytes that are no request shortly, without details (RFC 9457 §4.2.1), and closes the connection. The requests
 * before them are answered first: one of them may have been stored.
 */
export function answerUnreadable(error: NodeJS.ErrnoException, socket: Connection): void {
  if (error.code === "ECONNRESET") return void socket.destroy();
  if (unreadable.has(socket)) return;
  unreadable.add(socket);
  const { incoming } = socket.parser ?? {};
  const broken = incoming?.complete === false ? incoming : undefined;
  afterAnswers(socket, broken, () => {
    const { _httpMessage: answering } = socket;
    const answered = answering ? answering.headersSent : broken !== undefined;
    // What is written goes out first.
    if (answered || !socket.writable) socket.destroySoon();
    else socket.end(written(statusOf(error.code)), () => socket.destroy());
  });
}

/** Calls back when the requests before `broken`, or all of them, are answered. */
function afterAnswers(socket: Connection, broken: IncomingMessage | undefined, then: () => void): void {
  const { _httpMessage: answering } = socket;
  if (socket.destroyed) return;
  if (!answering || answering.req === broken) return then();
  answering.once("close", () => afterAnswers(socket, broken, then));
}

function statusOf(code: string | undefined): number {
  if (code === "HPE_HEADER_OVERFLOW") return 431;
  return code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400;
}

/** An answer that names no path and no fault: of such a request too little is known. */
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

/** Answers a request that expects something other than to be told to go on. */
export function refuseExpectation(_req: IncomingMessage, res: ServerResponse): void {
  const { headers, body } = shortProblem(417);
  res.writeHead(417, headers).end(body);
}

/**
 * Called when a client has closed its side: it sends nothing more. What it published is answered still. For other requests
 * this is how a client leaves, and nothing more is done for it.
 */
export function endHalfClosed(socket: Connection): void {
  const { _httpMessage: answering } = socket;
  if (!answering || socket.destroyed) return;
  if (!answersHalfClosed(answering)) return void socket.end();
  answering.once("close", () => endHalfClosed(socket));
}

/** Closes connections without a request under way. Node's own also closes those whose answer is made, but not read yet. */
export function closeIdle(connections: Iterable<Connection>): void {
  for (const connection of connections) if (!connection._httpMessage) connection.destroy();
}
