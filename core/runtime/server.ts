/** The HTTP server, on exactly the configured address, with limits on the time and number of connections. */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { createServer as createTlsServer, type ServerOptions } from "node:https";
import { createServer as createSocketServer, Server as SocketServer, type AddressInfo, type Socket } from "node:net";
import { DEFAULT_CIPHERS } from "node:tls";
import { reasonOf } from "../lib/reason.ts";
import { StartError } from "../model/errors.ts";
import { within } from "../lib/within.ts";
import type { Clock } from "../ports/clock.ts";
import type { Plan } from "../ports/plan.ts";
import { systemClock } from "./clock.ts";
import { Connections, refuseExpectation, statusOf, type Handler } from "./connections.ts";

/** How long an idle connection is kept, ms: longer than usual proxies keep theirs, so that the proxy closes first. */
const KEEP_ALIVE_MS = 65_000;

/** How long a stop waits for the first request of a new connection, ms. */
const FIRST_REQUEST_MS = 500;
/** Most turns of the event loop in which connections are still taken over at a stop. */
const LAST_TURNS = 1_000;
/** Browsers ask this host by HTTPS alone for a year. */
const HSTS = "max-age=31536000";

/** Time limits of the server; tests set shorter ones. */
export interface Patience {
  readonly clock: Clock;
  /** Longest time for a TLS handshake, ms. @default 10_000 */
  readonly handshakeMs: number;
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
  /** Refuses new connections from now on; those that are there are served. May be called twice. */
  refuse(): Promise<void>;
  /** Refuses new connections, waits for requests under way, and closes the rest after `graceMs`. May be called twice. */
  close(graceMs: number): Promise<void>;
}

/** @throws StartError 69 when the address cannot be listened on, 78 when the certificate cannot be used */
export async function listen(
  handler: Handler,
  { host, port, tls, maxConnections }: Plan["server"],
  patience: Partial<Patience> = {},
): Promise<Listening> {
  const { clock = systemClock() } = patience;
  const http = await create(tls, {
    handshakeTimeout: patience.handshakeMs ?? 10_000,
    headersTimeout: patience.headersMs ?? 10_000,
    requestTimeout: patience.requestMs ?? 30_000,
    connectionsCheckingInterval: patience.checkMs ?? 2_000,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Node refuses a request without Host with no problem document.
    requireHostHeader: false,
  });
  http.maxConnections = maxConnections;
  http.timeout = patience.stalledMs ?? 60_000;
  const connections = new Connections();
  /** Node's `closeAllConnections` knows none whose TLS handshake is under way, and none that asked for a tunnel. */
  const sockets = new Set<Socket>();
  let taken = 0;
  http.on("connection", (socket: Socket) => {
    taken++;
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  http.on(tls ? "secureConnection" : "connection", (socket: Socket) => connections.add(socket));
  // Before the handler, which adds to it. An IP address or a certificate that a browser does not know makes it ignore this.
  if (tls) http.on("request", (_req, res) => void res.setHeader("Strict-Transport-Security", HSTS));
  http.on("request", connections.take.bind(connections, handler));
  http.on("checkExpectation", connections.take.bind(connections, refuseExpectation));
  http.on("timeout", (socket: Socket) => connections.cutStalled(socket));
  http.on("clientError", ({ code }: NodeJS.ErrnoException, socket: Socket) =>
    connections.refuse(socket, statusOf(code)),
  );
  http.on("connect", (_req: IncomingMessage, socket: Socket) => {
    // Node no longer listens to the socket of a tunnel.
    socket.on("error", () => socket.destroy()).on("timeout", () => socket.destroy());
    connections.refuse(socket, 400);
  });
  const bound = await bind(http, host, port);

  let refused: Promise<void> | undefined;
  let closed: Promise<void> | undefined;
  const ended = Promise.withResolvers<void>();

  /** The kernel has completed connections of which Node takes one a turn: closing the server would reset the others. */
  async function refuse(): Promise<void> {
    let before = -1;
    for (let left = LAST_TURNS; before !== taken && left > 0; left--) {
      before = taken;
      await new Promise((resolve) => void setImmediate(() => void setImmediate(resolve)));
    }
    // The `close` of an HTTP server would also close connections whose answer is made, but not read yet.
    SocketServer.prototype.close.call(http, () => ended.resolve());
  }

  async function drain(graceMs: number): Promise<void> {
    await (refused ??= refuse());
    connections.drain();
    const firstMs = Math.min(graceMs, FIRST_REQUEST_MS);
    if (!(await within(clock, firstMs, ended.promise))) connections.closeUnused();
    await within(clock, graceMs - firstMs, ended.promise);
    for (const socket of sockets) socket.destroy();
    await ended.promise;
  }

  return {
    url: `${tls ? "https" : "http"}://${isAnyHost(host) ? "127.0.0.1" : hostOf(bound)}:${bound.port}`,
    address: bound.address,
    port: bound.port,
    refuse: () => (refused ??= refuse()),
    close: (graceMs) => (closed ??= drain(graceMs)),
  };
}

/** @throws StartError 78 when the certificate or its key cannot be used */
async function create(tls: Plan["server"]["tls"], options: ServerOptions): Promise<Server> {
  if (tls === undefined) return createServer(options);
  try {
    return createTlsServer({
      ...options,
      cert: await readFile(tls.cert),
      key: await readFile(tls.key),
      // Not those without forward secrecy, nor those with SHA-1.
      ciphers: `${DEFAULT_CIPHERS}:!kRSA:!SHA1`,
    }) as Server;
  } catch (cause) {
    const why = `the certificate or its key (server.tls) cannot be used: ${reasonOf(cause)}`;
    throw new StartError(78, `${why}: give a PEM file of each, made for one another`, { cause });
  }
}

/** @throws StartError 69 when the address cannot be listened on */
async function bind(http: Server, host: string, port: number): Promise<AddressInfo> {
  const { listen: listenOn } = await import("listhen");
  const options = {
    hostname: host,
    port: port === 0 ? { random: true } : { port, random: false, verbose: false },
    autoClose: false,
    isProd: true,
    isTest: false,
    showURL: false,
    public: isAnyHost(host),
  };
  try {
    // The server of listhen takes no options: ours takes the socket over, before it has accepted a connection.
    http.listen((await listenOn(() => undefined, options)).server);
    await once(http, "listening");
  } catch (cause) {
    throw notListening(host, port, (await whyNot(host, port)) ?? (cause as NodeJS.ErrnoException).code, cause);
  }
  const bound = http.address() as AddressInfo;
  if ((port === 0 || bound.port === port) && isSameHost(host, bound.address)) return bound;
  http.close();
  throw notListening(host, port, await whyNot(host, port));
}

const hostOf = ({ address, family }: AddressInfo): string => (family === "IPv6" ? `[${address}]` : address);
const isAnyHost = (host: string): boolean => host === "0.0.0.0" || host === "::" || host === "";

/** Returns whether `bound` is what was asked for: exactly, for an address; a name may stand for several addresses. */
function isSameHost(asked: string, bound: string): boolean {
  const literal = /^[\d.]+$/.test(asked) || asked.includes(":");
  if (!literal) return asked !== "localhost" || /^(?:127\.|::1$)/.test(bound);
  if (!asked.includes(":")) return asked === bound;
  return new URL(`http://[${asked}]`).hostname === new URL(`http://[${bound}]`).hostname;
}

/** The error code for listening on the address, which listhen does not pass on; `undefined` when it works now. */
function whyNot(host: string, port: number): Promise<string | undefined> {
  const probe = createSocketServer();
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

function notListening(host: string, port: number, code: string | undefined, cause?: unknown): StartError {
  const reason = code === undefined ? "it is in use, or not an address of this machine" : (REASONS[code] ?? code);
  return new StartError(69, `cannot listen on ${host.includes(":") ? `[${host}]` : host}:${port}: ${reason}`, {
    cause,
  });
}
