/** A far side that speaks HTTP/2 frame by frame, over real TLS: for what no proper server sends. */
import { createServer, type TLSSocket } from "node:tls";
import type { AddressInfo } from "node:net";
import { loopbackCertificate } from "./certificates.ts";

export const DATA = 0;
export const HEADERS = 1;
export const PRIORITY = 2;
export const RST_STREAM = 3;
export const SETTINGS = 4;
export const PUSH_PROMISE = 5;
export const PING = 6;
export const GOAWAY = 7;
export const WINDOW_UPDATE = 8;
export const CONTINUATION = 9;
export const END_STREAM = 1;
export const ACK = 1;
export const END_HEADERS = 4;
export const PADDED = 8;

const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

export function frame(type: number, flags: number, stream: number, payload: Uint8Array | string = ""): Buffer {
  const bytes = typeof payload === "string" ? Buffer.from(payload, "latin1") : payload;
  const head = Buffer.alloc(9);
  head.writeUIntBE(bytes.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, bytes]);
}

export const uint32 = (...values: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, i) => bytes.writeUInt32BE(value, i * 4));
  return bytes;
};

/** One setting: its number (RFC 9113, 6.5.2) and its value. */
export const setting = (id: number, value: number): Buffer => Buffer.concat([Buffer.from([0, id]), uint32(value)]);

/** A header without an index (RFC 7541, 6.2.2), of less than 127 bytes each. */
export const header = (name: string, value: string): Buffer =>
  Buffer.concat([Buffer.from([0, name.length]), Buffer.from(name), Buffer.from([value.length]), Buffer.from(value)]);

/** A header block with nothing but a status. */
export const status = (code: number): Buffer => Buffer.concat([Buffer.from([0x08, 3]), Buffer.from(String(code))]);

/** A whole response without a body. */
export const answer = (stream: number, code = 200): Buffer =>
  frame(HEADERS, END_HEADERS | END_STREAM, stream, status(code));

export interface Peer {
  /** Counted from 1. */
  readonly connection: number;
  send(...frames: readonly Uint8Array[]): void;
  /** Sends the same bytes again and again for as long as the client reads. */
  pour(bytes: Uint8Array): void;
  /** Reads no more. */
  stall(): void;
  /** Ends the connection. */
  end(): void;
}

export interface FramePeer extends AsyncDisposable {
  readonly url: string;
  /** Connections so far. */
  connections(): number;
  /** Requests so far, each with its connection and stream. */
  readonly requests: readonly { readonly connection: number; readonly stream: number }[];
  /** Frames that the client sent, as `[type, stream]`. */
  readonly frames: readonly (readonly [number, number])[];
  /** Bytes written to all connections so far. */
  written(): number;
  /** Resolves when so many connections have been closed. */
  waitForClosed(count: number): Promise<void>;
}

export interface FramePeerOptions {
  /** Payload of its first SETTINGS. */
  readonly settings?: Uint8Array;
  /** Called with each complete request: the number of its stream, and how many came before it. */
  readonly request: (peer: Peer, stream: number, index: number) => void;
  /** Called with each request whose headers came. */
  readonly begun?: (peer: Peer, stream: number) => void;
}

export async function startFramePeer(options: FramePeerOptions): Promise<FramePeer> {
  const requests: { connection: number; stream: number }[] = [];
  const frames: [number, number][] = [];
  const sockets = new Set<TLSSocket>();
  const waiting = new Set<() => void>();
  let accepted = 0;
  let closed = 0;
  let before = 0;
  const server = createServer({ ...(await loopbackCertificate()), ALPNProtocols: ["h2"] }, (socket) => {
    const connection = ++accepted;
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => {
      sockets.delete(socket);
      before += socket.bytesWritten;
      closed += 1;
      for (const check of waiting) check();
    });
    const peer: Peer = {
      connection,
      send: (...all) => void socket.write(Buffer.concat(all)),
      pour: (bytes) => {
        const pour = (): void => {
          while (socket.writable && socket.write(bytes));
        };
        socket.on("drain", pour);
        pour();
      },
      stall: () => void socket.pause(),
      end: () => void socket.end(),
    };
    peer.send(frame(SETTINGS, 0, 0, options.settings ?? ""));
    let held = Buffer.alloc(0);
    let greeted = false;
    socket.on("data", (chunk: Buffer) => {
      held = Buffer.concat([held, chunk]);
      if (!greeted) {
        if (held.length < PREFACE.length) return;
        held = held.subarray(PREFACE.length);
        greeted = true;
      }
      while (held.length >= 9 && held.length >= 9 + held.readUIntBE(0, 3)) {
        const [type, flags, stream] = [held[3] ?? 0, held[4] ?? 0, held.readUInt32BE(5)];
        held = held.subarray(9 + held.readUIntBE(0, 3));
        frames.push([type, stream]);
        if (type === SETTINGS && (flags & ACK) === 0) peer.send(frame(SETTINGS, ACK, 0));
        if (type === HEADERS) options.begun?.(peer, stream);
        if ((type !== DATA && type !== HEADERS) || (flags & END_STREAM) === 0) continue;
        requests.push({ connection, stream });
        options.request(peer, stream, requests.length - 1);
      }
    });
  });
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", () => resolve()));
  const { port } = server.address() as AddressInfo;
  return {
    url: `https://127.0.0.1:${port}/hook`,
    connections: () => accepted,
    requests,
    frames,
    written: () => [...sockets].reduce((sum, { bytesWritten }) => sum + bytesWritten, before),
    waitForClosed: (count) =>
      new Promise((resolve) => {
        const check = (): void => {
          if (closed < count) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      }),
    async [Symbol.asyncDispose]() {
      const ended = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await ended;
    },
  };
}
