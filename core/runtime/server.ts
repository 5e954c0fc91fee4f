/** The HTTP server: listhen, on exactly the configured address, with limits on the time and number of connections. */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { StartError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import { answerUnreadable, closeIdle, comesTooLate, endHalfClosed, refuseExpectation } from "./answers-in-order.ts";
import { systemClock } from "./clock.ts";
import { loadListhen } from "./load-listhen.ts";
import type { Plan } from "../ports/plan.ts";
import { openShared } from "./shared-port.ts";

/** How long an idle connection is kept, ms: longer than usual proxies keep theirs, so that the proxy closes first. */
const KEEP_ALIVE_MS = 65_000;

/** Emitted on Node's server when it drains. Answers without an end (streams) listen on `socket.server` and then end. */
const DRAINING = "draining";
/** How often a drain closes connections that have become idle, ms. */
const DRAIN_LOOK_MS = 20;

/** Time limits of the server; tests set shorter ones. */
export interface Patience {
  readonly clock: Clock;
  /** Longest time for a request's head, ms. @default 10_000 */
  readonly headersMs: number;
  /** Longest time for a whole request, ms. @default 30_000 */
  readonly requestMs: number;
  /** How often connections are checked against these limits, ms. @default 2_000 */
  readonly checkMs: number;
  /** A client that reads nothing of its answer for this long is disconnected, ms. @default 60_000 */
  readonly stalledMs: number;
}

export interface Listening {
  readonly url: string;
  readonly address: string;
  readonly port: number;
  /** Refuses new connections, waits for requests under way, and closes the rest after `graceMs`. May be called twice. */
  close(graceMs: number): Promise<void>;
}

export type Handler = (req: IncomingMessage, res: ServerResponse) => void;

/**
 * @param shared whether other threads listen there too
 * @throws StartError 69 when the address cannot be listened on, 78 when the certificate cannot be used
 */
export async function listen(
  handler: Handler,
  server: Plan["server"],
  patience: Partial<Patience> = {},
  shared = false,
): Promise<Listening> {
  const {
    clock = systemClock(),
    headersMs = 10_000,
    requestMs = 30_000,
    checkMs = 2_000,
    stalledMs = 60_000,
  } = patience;
  const { host, port, tls, maxConnections } = server;
  const asked = addressOf(host, port);
  let closing = false;
  const serve: Handler = (req, res) => {
    if (comesTooLate(req, res)) return;
    // Of a connection on which an upgrade was asked for and refused, Node reads nothing more.
    if (closing || req.headers.upgrade !== undefined) res.shouldKeepAlive = false;
    handler(req, res);
  };
  const alone = {
    hostname: host,
    port: port === 0 ? { random: true } : { port, random: false, verbose: false },
    https: tls ? { cert: tls.cert, key: tls.key } : (false as const),
    autoClose: false,
    isProd: true,
    isTest: false,
    showURL: false,
    public: isAnyHost(host),
  };
  const opening = shared ? openShared(serve, server) : loadListhen().then(({ listen: open }) => open(serve, alone));
  const listener = await opening.catch(async (cause: unknown) => {
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
  // Node reads the interval of its checks (30 s by default) when it starts to listen: emitting the event restarts them.
  Object.assign(http, { connectionsCheckingInterval: checkMs });
  http.emit("listening");
  http.on("clientError", answerUnreadable);
  http.on("connect", (_req: IncomingMessage, socket: Socket) => answerUnreadable(new Error("no tunnels"), socket));
  // Node would close a connection whose client has closed its side, with what was stored unanswered, and answer a request
  // without Host itself, without a problem document.
  Object.assign(http, { httpAllowHalfOpen: true, requireHostHeader: false });
  http.on("checkExpectation", refuseExpectation);
  /** Node's `closeAllConnections` knows none whose TLS handshake is under way, and none that asked for a tunnel. */
  const sockets = new Set<Socket>();
  http.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  const connections = new Set<Socket>();
  http.on(tls ? "secureConnection" : "connection", (socket: Socket) => {
    connections.add(socket);
    socket.once("close", () => connections.delete(socket));
    socket.allowHalfOpen = true;
    socket.on("end", () => endHalfClosed(socket));
  });
  // Node calls it too, when it closes.
  http.closeIdleConnections = () => closeIdle(connections);
  http.setMaxListeners(0);

  let closed: Promise<void> | undefined;
  async function drain(graceMs: number): Promise<void> {
    closing = true;
    http.emit(DRAINING);
    let drained = false;
    const ended = new Promise<void>((resolve) => void http.close(() => resolve())).then(() => (drained = true));
    const until = clock.monotonic() + graceMs;
    // An idle connection has been answered; closing it loses nothing.
    while (!drained && clock.monotonic() < until) {
      http.closeIdleConnections();
      await Promise.race([ended, clock.sleep(clock.now() + Math.min(DRAIN_LOOK_MS, graceMs))]);
    }
    http.closeAllConnections();
    for (const socket of sockets) socket.destroy();
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
 * Called when a connection was silent for `stalledMs`. Closes it when it is idle, or when its client does not read its
 * answer; leaves it open while its request is being answered.
 */
function cutStalled(socket: Socket): void {
  const { _httpMessage: answering } = socket as { readonly _httpMessage?: unknown };
  if (!answering || socket.writableLength > 0) socket.destroy();
}

const addressOf = (host: string, port: number): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;
const hostOf = ({ address, family }: AddressInfo): string => (family === "IPv6" ? `[${address}]` : address);
const isAnyHost = (host: string): boolean => host === "0.0.0.0" || host === "::" || host === "";

/** Whether `bound` is what was asked for: exactly, for an address; a name may stand for several addresses. */
function isSameHost(asked: string, bound: string): boolean {
  const literal = /^[\d.]+$/.test(asked) || asked.includes(":");
  if (!literal) return asked !== "localhost" || /^(?:127\.|::1$)/.test(bound);
  if (!asked.includes(":")) return asked === bound;
  return new URL(`http://[${asked}]`).hostname === new URL(`http://[${bound}]`).hostname;
}

/** @throws StartError 69 when anybody listens there: who shares the port among threads would share it with them */
export async function claimPort({ host, port }: Pick<Plan["server"], "host" | "port">): Promise<void> {
  const code = port === 0 ? undefined : await whyNot(host, port);
  if (code !== undefined) throw notListening(addressOf(host, port), code);
}

/** The error code for listening on the address, which listhen does not pass on; `undefined` when it works now. */
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
