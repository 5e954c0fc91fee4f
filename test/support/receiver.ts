/** A webhook receiver over real TLS on loopback: it records what arrives and answers as a script says. */
import { createServer } from "node:https";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { loopbackCertificate, testAuthority } from "./certificates.ts";
import type { KeyPair } from "./certificates.ts";

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  /** The body as it came, byte for byte. */
  readonly body: Buffer;
  /** Epoch ms at which its last byte was read. */
  readonly at: number;
  /** Which connection it came on, counted from 1. */
  readonly connection: number;
  /** SHA-256 of the certificate that the client showed. */
  readonly client?: string;
}

/** Says what to do with one request. A number is a plain reply with that status. */
export type Step =
  | number
  | {
      readonly do: "reply";
      readonly status?: number;
      readonly headers?: Readonly<Record<string, string | readonly string[]>>;
      readonly body?: string | Uint8Array;
      readonly delayMs?: number;
    }
  /** Reads the request and never answers. */
  | { readonly do: "hang" }
  /** Answers with complete headers and half a body, then never again. */
  | { readonly do: "stall"; readonly status?: number }
  /** TCP reset; with `status`, after complete headers and half a body. */
  | { readonly do: "reset"; readonly status?: number }
  /** One byte every `everyMs`: of the header block, or with `status` of an endless body. */
  | { readonly do: "drip"; readonly everyMs: number; readonly status?: number }
  /** A body of `bytes` bytes without a Content-Length. */
  | { readonly do: "flood"; readonly bytes: number; readonly status?: number }
  /** Raw bytes instead of HTTP, then the end of the connection; with `open`, the connection stays. */
  | { readonly do: "raw"; readonly text: string; readonly open?: boolean }
  /** Raw bytes, so many at a time, then a plain reply. */
  | { readonly do: "pieces"; readonly text: string; readonly size: number; readonly status: number }
  /** Raw bytes, then the same text again and again for as long as the client reads. */
  | { readonly do: "pour"; readonly head: string; readonly again: string };

export type Script = readonly Step[] | ((request: Received, index: number) => Step | Promise<Step>);

export interface ReceiverOptions {
  /** Steps for the first requests in order, then `otherwise`; or a function asked every time. */
  readonly script?: Script;
  /** @default 200 */
  readonly otherwise?: Step;
  /** @default a certificate of the shared test authority for localhost, 127.0.0.1 and ::1 */
  readonly certificate?: KeyPair;
  /** Asks each client for a certificate of the shared test authority, and refuses those without one. */
  readonly clients?: boolean;
  /** @default "127.0.0.1" */
  readonly host?: string;
  /** @default 0, a free one */
  readonly port?: number;
  /** How long an idle connection is kept, ms. @default 5000, as Node has it */
  readonly keepAliveMs?: number;
}

export interface Receiver extends AsyncDisposable {
  readonly port: number;
  /** `https://127.0.0.1:<port>` */
  readonly origin: string;
  /** PEM of the shared test authority. */
  readonly ca: string;
  /** Every request whose body was read to the end, in order. */
  readonly requests: readonly Received[];
  /** Connections accepted so far. */
  connections(): number;
  /** Connections that are open now. */
  open(): number;
  url(path?: string): string;
  /** Replaces the script from the next request on. */
  answer(script: Script, otherwise?: Step): void;
  /** Resolves when `count` requests have arrived in all. @throws Error after `timeoutMs` (60 s) */
  waitFor(count: number, timeoutMs?: number): Promise<readonly Received[]>;
  /** Resolves when a request or its connection has been given up by the client `count` times. */
  waitForAborted(count: number, timeoutMs?: number): Promise<void>;
  /** Bytes that were written to all connections so far. */
  written(): number;
  /** Ends every connection without a word; resolves when the kernel has been told. */
  dropConnections(): Promise<void>;
  close(): Promise<void>;
}

export const startReceiver = async (options: ReceiverOptions = {}): Promise<Receiver> => {
  const { certificate = await loopbackCertificate(), host = "127.0.0.1" } = options;
  const { ca } = await testAuthority();
  const requests: Received[] = [];
  const sockets = new Map<Socket, number>();
  // The TCP sockets under TLS, by the client's port: only they can send a reset.
  const raw = new Map<number, Socket>();
  const timers = new Set<NodeJS.Timeout>();
  const waiting = new Set<() => void>();
  let script: Script = options.script ?? [];
  let otherwise: Step = options.otherwise ?? 200;
  let asked = 0;
  let accepted = 0;
  let aborted = 0;
  let writtenBefore = 0;

  const changed = (): void => waiting.forEach((check) => check());
  const until = (done: () => boolean, told: () => string, timeoutMs: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const end = (error?: Error): void => {
        clearTimeout(timer);
        waiting.delete(check);
        if (error) reject(error);
        else resolve();
      };
      const check = (): void => (done() ? end() : undefined);
      const timer = setTimeout(() => end(new Error(`receiver: gave up after ${timeoutMs} ms: ${told()}`)), timeoutMs);
      waiting.add(check);
      check();
    });

  const take = (received: Received): Step | Promise<Step> => {
    const index = asked++;
    return typeof script === "function" ? script(received, index) : (script[index] ?? otherwise);
  };

  const asking = options.clients === true ? { requestCert: true, rejectUnauthorized: true, ca } : {};
  const server = createServer({ key: certificate.key, cert: certificate.cert, ...asking }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("error", () => undefined);
    response.on("close", () => {
      if (response.writableFinished) return;
      aborted += 1;
      changed();
    });
    request.on("end", () => {
      const received = record(request, Buffer.concat(chunks), sockets.get(request.socket) ?? 0);
      requests.push(received);
      void Promise.resolve(take(received)).then((step) => {
        play(step, response, timers, () => void raw.get(request.socket.remotePort ?? 0)?.resetAndDestroy());
      });
      changed();
    });
  });
  server.keepAliveTimeout = options.keepAliveMs ?? 5000;
  server.on("connection", (socket: Socket) => {
    const { remotePort = 0 } = socket;
    raw.set(remotePort, socket);
    socket.on("close", () => {
      writtenBefore += socket.bytesWritten;
      if (raw.get(remotePort) === socket) raw.delete(remotePort);
    });
  });
  server.on("secureConnection", (socket: Socket) => {
    sockets.set(socket, ++accepted);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
  });
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(options.port ?? 0, host, () => resolve());
  });

  const { port } = server.address() as AddressInfo;
  const origin = `https://${host.includes(":") ? `[${host}]` : host}:${port}`;
  const dropConnections = async (): Promise<void> => {
    const open = [...raw.values()];
    await Promise.all(open.map((socket) => new Promise((resolve) => socket.once("close", resolve).destroy())));
  };
  const close = async (): Promise<void> => {
    timers.forEach((timer) => clearTimeout(timer));
    if (!server.listening) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await dropConnections();
    await closed;
  };
  return {
    port,
    origin,
    ca,
    requests,
    connections: () => accepted,
    open: () => sockets.size,
    url: (path = "/hook") => origin + path,
    answer: (next, after = 200) => {
      script = next;
      otherwise = after;
      asked = 0;
    },
    waitFor: async (count, timeoutMs = 60_000) => {
      await until(
        () => requests.length >= count,
        () => `${requests.length} of ${count} requests`,
        timeoutMs,
      );
      return requests;
    },
    waitForAborted: (count, timeoutMs = 60_000) =>
      until(
        () => aborted >= count,
        () => `${aborted} of ${count} aborted`,
        timeoutMs,
      ),
    written: () => [...raw.values()].reduce((sum, { bytesWritten }) => sum + bytesWritten, writtenBefore),
    dropConnections,
    close,
    [Symbol.asyncDispose]: close,
  };
};

const record = (request: IncomingMessage, body: Buffer, connection: number): Received => ({
  method: request.method ?? "",
  path: request.url ?? "",
  headers: request.headers,
  rawHeaders: request.rawHeaders,
  body,
  at: Date.now(),
  connection,
  ...shownBy(request.socket as TLSSocket),
});

const shownBy = (socket: TLSSocket): Pick<Received, "client"> => {
  const shown = socket.getPeerX509Certificate?.();
  return shown === undefined ? {} : { client: shown.fingerprint256 };
};

const play = (given: Step, response: ServerResponse, timers: Set<NodeJS.Timeout>, reset: () => void): void => {
  const step = typeof given === "number" ? ({ do: "reply", status: given } as const) : given;
  const { socket } = response;
  const every = (ms: number, act: () => void): void => {
    const timer = setInterval(act, ms);
    timers.add(timer);
    response.on("close", () => {
      clearInterval(timer);
      timers.delete(timer);
    });
  };
  switch (step.do) {
    case "reply": {
      const send = (): void => {
        response.writeHead(step.status ?? 200, { ...step.headers } as Record<string, string | string[]>);
        response.end(step.body ?? "");
      };
      if (step.delayMs === undefined) return send();
      const timer = setTimeout(() => {
        timers.delete(timer);
        send();
      }, step.delayMs);
      timers.add(timer);
      return;
    }
    case "hang":
      return;
    case "stall":
      response.writeHead(step.status ?? 200, { "content-length": "100" });
      response.write("half");
      return;
    case "reset":
      if (step.status === undefined) return reset();
      response.writeHead(step.status, { "content-length": "100" });
      response.write("half", reset);
      return;
    case "drip":
      if (step.status === undefined) {
        socket?.write("HTTP/1.1 200 OK\r\nx-slow: ");
        return every(step.everyMs, () => void socket?.write("a"));
      }
      response.writeHead(step.status);
      return every(step.everyMs, () => void response.write("a"));
    case "flood":
      response.writeHead(step.status ?? 200);
      response.end(Buffer.alloc(step.bytes, "x"));
      return;
    case "raw":
      if (step.open === true) socket?.write(step.text);
      else socket?.end(step.text);
      return;
    case "pieces": {
      let at = 0;
      const next = (): void => {
        const piece = step.text.slice(at, (at += step.size));
        if (piece === "") response.writeHead(step.status).end("ok");
        else socket?.write(piece, () => setImmediate(next));
      };
      return next();
    }
    case "pour": {
      socket?.write(step.head);
      const pour = (): void => {
        while (socket?.writable === true && socket.write(step.again));
      };
      socket?.on("drain", pour);
      pour();
    }
  }
};
