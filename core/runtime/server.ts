/** The server: listhen, held to what was asked for, with limits on how long and how many clients may take. */
import { STATUS_CODES } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { listen as open } from "listhen";
import { StartError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import { systemClock } from "./clock.ts";
import type { Plan } from "../ports/plan.ts";

/** An idle connection is kept this long, ms: longer than the usual proxy keeps its own, so that the proxy closes first. */
const KEEP_ALIVE_MS = 65_000;

/** The event of Node's server that tells answers without an end (streams) to end. They find it as `socket.server`. */
const DRAINING = "draining";
/** How often a drain looks for connections that have become idle, ms. */
const DRAIN_LOOK_MS = 20;

/** What tests make shorter. */
export interface Patience {
  readonly clock: Clock;
  /** A request's head must have come within this. @default 10_000 */
  readonly headersMs: number;
  /** A whole request must have come within this. @default 30_000 */
  readonly requestMs: number;
  /** How often connections are looked at. @default 2_000 */
  readonly checkMs: number;
  /** A client that takes nothing of its answer for so long is cut off. @default 60_000 */
  readonly stalledMs: number;
}

export interface Listening {
  readonly url: string;
  readonly address: string;
  readonly port: number;
  /** Takes no new connections, lets requests under way end, and cuts off after `graceMs` what has not. May be called twice. */
  close(graceMs: number): Promise<void>;
}

export type Handler = (req: IncomingMessage, res: ServerResponse) => void;

/** @throws StartError 69 when the address cannot be listened on, 78 when the certificate cannot be used */
export async function listen(
  handler: Handler,
  server: Plan["server"],
  patience: Partial<Patience> = {},
): Promise<Listening> {
  const {
    clock = systemClock(),
    headersMs = 10_000,
    requestMs = 30_000,
    checkMs = 2_000,
    stalledMs = 60_000,
  } = patience;
  const { host, port, tls, maxConnections } = server;
  const asked = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  let closing = false;
  const serve: Handler = (req, res) => {
    if (closing) res.setHeader("Connection", "close");
    handler(req, res);
  };
  const listener = await open(serve, {
    hostname: host,
    port: port === 0 ? { random: true } : { port, random: false, verbose: false },
    https: tls ? { cert: tls.cert, key: tls.key } : false,
    autoClose: false,
    isProd: true,
    isTest: false,
    showURL: false,
    public: isAnyHost(host),
  }).catch(async (cause: unknown) => {
    throw refused(asked, cause, await whyNot(host, port));
  });
  const http = listener.server as Server;
  const bound = http.address() as AddressInfo;
  if ((port !== 0 && bound.port !== port) || !isSameHost(host, bound.address)) {
    await listener.close();
    throw notListening(asked, await whyNot(host, port));
  }
  http.headersTimeout = headersMs;
  http.requestTimeout = requestMs;
  http.keepAliveTimeout = KEEP_ALIVE_MS;
  http.maxConnections = maxConnections;
  http.timeout = stalledMs;
  http.on("timeout", cutStalled);
  // Node looks every 30 s by default, and begins to look with what is set when it starts to listen: so it starts anew.
  Object.assign(http, { connectionsCheckingInterval: checkMs });
  http.emit("listening");
  http.on("clientError", answerBadHead);
  http.setMaxListeners(0);

  let closed: Promise<void> | undefined;
  async function drain(graceMs: number): Promise<void> {
    closing = true;
    http.emit(DRAINING);
    let drained = false;
    const ended = new Promise<void>((resolve) => void http.close(() => resolve())).then(() => (drained = true));
    const until = clock.monotonic() + graceMs;
    // A connection that becomes idle has been answered: its client would only wait for a next answer.
    while (!drained && clock.monotonic() < until) {
      http.closeIdleConnections();
      await Promise.race([ended, clock.sleep(clock.now() + Math.min(DRAIN_LOOK_MS, graceMs))]);
    }
    http.closeAllConnections();
    await ended;
  }

  return {
    url: `${tls ? "https" : "http"}://${isAnyHost(host) ? "127.0.0.1" : hostOf(bound)}:${bound.port}`,
    address: bound.address,
    port: bound.port,
    close: (graceMs) => (closed ??= drain(graceMs)),
  };
}

/**
 * Nothing was read or written for a while. An idle connection ends, and so does one whose client does not take what was
 * written; one whose request takes that long to be answered goes on.
 */
function cutStalled(socket: Socket): void {
  const { _httpMessage: answering } = socket as { readonly _httpMessage?: unknown };
  if (!answering || socket.writableLength > 0) socket.destroy();
}

const hostOf = ({ address, family }: AddressInfo): string => (family === "IPv6" ? `[${address}]` : address);
const isAnyHost = (host: string): boolean => host === "0.0.0.0" || host === "::" || host === "";

/** A name may stand for several addresses; an address must be the one that was asked for. */
function isSameHost(asked: string, bound: string): boolean {
  const literal = /^[\d.]+$/.test(asked) || asked.includes(":");
  if (!literal) return asked !== "localhost" || /^(?:127\.|::1$)/.test(bound);
  if (!asked.includes(":")) return asked === bound;
  return new URL(`http://[${asked}]`).hostname === new URL(`http://[${bound}]`).hostname;
}

/** What the system says of the address, as listhen does not pass it on; `undefined` when it can be had by now. */
function whyNot(host: string, port: number): Promise<string | undefined> {
  const probe = createServer();
  return new Promise((resolve) => {
    probe.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(undefined)));
  });
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: "another process listens there; end it, or choose another port",
  EACCES: "it is not permitted: choose a port from 1024 on, or grant CAP_NET_BIND_SERVICE",
  EADDRNOTAVAIL: "it is not an address of this machine",
  ENOTFOUND: "the host name has no address",
  EAI_AGAIN: "the host name cannot be looked up now",
};

function notListening(asked: string, code: string | undefined, cause?: unknown): StartError {
  const reason = code === undefined ? "it is in use, or not an address of this machine" : (REASONS[code] ?? code);
  return new StartError(69, `cannot listen on ${asked}: ${reason}`, { cause });
}

function refused(asked: string, cause: unknown, why: string | undefined): StartError {
  const { code, syscall } = cause as NodeJS.ErrnoException;
  if (code?.startsWith("ERR_") || code === "ENOENT" || syscall === "open") {
    return new StartError(78, "the certificate or its key (server.tls) cannot be used", { cause });
  }
  return notListening(asked, why ?? code, cause);
}

/** What has no head that can be read gets a short answer without details (RFC 9457 §4.2.1), and the connection ends. */
function answerBadHead(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable || socket.bytesWritten > 0) return void socket.destroy();
  const status = error.code === "HPE_HEADER_OVERFLOW" ? 431 : error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400;
  const title = STATUS_CODES[status] as string;
  const body = JSON.stringify({ type: "about:blank", title, status });
  const head = [
    `HTTP/1.1 ${status} ${title}`,
    "Content-Type: application/problem+json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "Connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy());
}
