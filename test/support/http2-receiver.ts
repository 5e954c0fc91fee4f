/** A receiver that speaks HTTP/2, and HTTP/1.1 where it is told to, with Node's own server over real TLS. */
import {
  createSecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { loopbackCertificate, testAuthority } from "./certificates.ts";

export interface Http2Request {
  /** `2.0` or `1.1` */
  readonly version: string;
  readonly method: string;
  readonly path: string;
  /** `:authority`, or `Host` */
  readonly host: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  /** Counted from 1. */
  readonly connection: number;
  /** SHA-256 of the certificate that the client showed. */
  readonly client: string | undefined;
  /** True when its connection resumed a TLS session. */
  readonly resumed: boolean;
}

/** Answers a request; without an answer the client waits. */
export type Answer = (request: Http2Request, response: Http2ServerResponse, index: number) => void;

export interface Http2Receiver extends AsyncDisposable {
  readonly port: number;
  url(path?: string): string;
  readonly requests: readonly Http2Request[];
  /** Connections so far, and those that are open now. */
  connections(): number;
  open(): number;
  /** Most requests that were under way at once. */
  most(): number;
  /** Resolves when it is true, which is looked at whenever something happens. */
  until(done: () => boolean): Promise<void>;
  /** Streams that the client gave up. */
  aborted(): number;
  /** Ends each connection as a server does that stops: no new requests, those under way may end. */
  goAway(): void;
  /** Ends each connection without a word. */
  drop(): void;
}

export interface Http2ReceiverOptions {
  /** @default 200 */
  readonly answer?: Answer;
  readonly allowHTTP1?: boolean;
  /** Asks each client for a certificate of the shared test authority, and refuses those without one. */
  readonly clients?: boolean;
  readonly maxConcurrentStreams?: number;
  /** @default one of the shared test authority, for loopback */
  readonly certificate?: { readonly cert: string; readonly key: string };
}

export async function startHttp2Receiver(options: Http2ReceiverOptions = {}): Promise<Http2Receiver> {
  const { answer = (_, response) => void response.writeHead(200).end(), allowHTTP1 = true, clients = false } = options;
  const { ca } = await testAuthority();
  const requests: Http2Request[] = [];
  const sockets = new Map<Socket, number>();
  const raw = new Set<Socket>();
  const sessions = new Set<ServerHttp2Session>();
  const waiting = new Set<() => void>();
  const changed = (): void => waiting.forEach((check) => check());
  let [accepted, under, most, aborted] = [0, 0, 0, 0];

  const server = createSecureServer({
    ...(options.certificate ?? (await loopbackCertificate())),
    ...(clients && { requestCert: true, rejectUnauthorized: true, ca }),
    allowHTTP1,
    settings: options.maxConcurrentStreams === undefined ? {} : { maxConcurrentStreams: options.maxConcurrentStreams },
  });
  const connectionOf = (request: Http2ServerRequest): TLSSocket | undefined =>
    [...sockets.keys()].find(({ remotePort }) => remotePort === request.socket.remotePort) as TLSSocket | undefined;
  server.on("request", (request: Http2ServerRequest, response: Http2ServerResponse) => {
    most = Math.max(most, ++under);
    const socket = connectionOf(request);
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("error", () => undefined);
    request.on("aborted", () => {
      aborted += 1;
      changed();
    });
    response.on("error", () => undefined);
    response.on("close", () => void (under -= 1));
    request.on("end", () => {
      const { httpVersion: version, method, url: path, headers } = request;
      const received: Http2Request = {
        version,
        method,
        path,
        host: String(headers[":authority"] ?? headers.host),
        headers,
        body: Buffer.concat(chunks),
        connection: (socket && sockets.get(socket)) ?? 0,
        client: socket?.getPeerX509Certificate()?.fingerprint256,
        resumed: socket?.isSessionReused() ?? false,
      };
      requests.push(received);
      answer(received, response, requests.length - 1);
      changed();
    });
  });
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => undefined);
    session.on("close", () => sessions.delete(session));
  });
  server.on("sessionError", () => undefined);
  server.on("tlsClientError", () => undefined);
  server.on("connection", (socket: Socket) => {
    raw.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => {
      raw.delete(socket);
      changed();
    });
  });
  server.on("secureConnection", (socket: TLSSocket) => {
    sockets.set(socket, ++accepted);
    socket.on("error", () => undefined);
    socket.on("close", () => {
      sockets.delete(socket);
      changed();
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", () => resolve()));
  const { port } = server.address() as AddressInfo;
  const drop = (): void => {
    for (const socket of raw) socket.destroy();
  };
  return {
    port,
    url: (path = "/hook") => `https://127.0.0.1:${port}${path}`,
    requests,
    connections: () => accepted,
    open: () => raw.size,
    most: () => most,
    aborted: () => aborted,
    until: (done) =>
      new Promise((resolve) => {
        const check = (): void => {
          if (!done()) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      }),
    goAway: () => {
      for (const session of sessions) session.close();
    },
    drop,
    async [Symbol.asyncDispose]() {
      const ended = new Promise((resolve) => server.close(resolve));
      drop();
      await ended;
    },
  };
}
