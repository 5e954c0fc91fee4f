/** A webhook receiver over TLS for `listen`, `dev` and `demo`: it checks every signature and reports each request. */
import { createServer } from "node:https";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { verifyHex, verifyStandard } from "../../core/signing/verify.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { KeyPair } from "../support/certificates.ts";

/** `unchecked`: there was no secret to check with. */
type SignatureVerdict = "verified" | "refused" | "unchecked";

export interface Arrival {
  /** Epoch ms. */
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The body, byte for byte. */
  readonly body: Buffer;
  readonly verdict: SignatureVerdict;
  /** 1…5; 0 when the request does not say. */
  readonly attempt: number;
}

export interface ReceiverOptions {
  readonly host: string;
  /** 0 asks for any free port. */
  readonly port: number;
  readonly certificate: KeyPair;
  readonly clock: Clock;
  /** Secrets that may have signed what arrives at a path. */
  secrets(path: string): readonly string[];
  /** Returns the status to answer with. It must not throw. */
  answer(arrival: Arrival): number | Promise<number>;
  /** Called after each answer was decided. */
  arrived(arrival: Arrival, status: number): void;
}

interface LocalReceiver {
  readonly port: number;
  /** `https://<host>:<port>` */
  readonly origin: string;
  close(): Promise<void>;
}

/** More than any delivery: an event has at most 256 KiB. */
const MAX_BODY = 1_048_576;

/** @throws Error of node:net when it cannot listen */
export async function startReceiver(options: ReceiverOptions): Promise<LocalReceiver> {
  const { certificate, host, port, clock } = options;
  const server = createServer(certificate, (request, response) => {
    void readBody(request).then(async (body) => {
      if (body === undefined) return void response.writeHead(413, { connection: "close" }).end();
      const path = request.url ?? "/";
      const verdict = judge(body, request.headers, options.secrets(path), clock.now());
      const arrival: Arrival = {
        at: clock.now(),
        method: request.method ?? "",
        path,
        headers: request.headers,
        body,
        verdict,
        attempt: Number(request.headers["x-relay-attempt"] ?? 0) || 0,
      };
      const status = verdict === "refused" ? 401 : await options.answer(arrival);
      options.arrived(arrival, status);
      response.writeHead(status).end();
    });
  });
  await new Promise<void>((resolve, reject) => void server.once("error", reject).listen(port, host, resolve));
  const { port: bound } = server.address() as AddressInfo;
  return {
    port: bound,
    origin: `https://${host.includes(":") ? `[${host}]` : host}:${bound}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Both kinds of signature headers must be right. */
function judge(body: Buffer, headers: IncomingHttpHeaders, secrets: readonly string[], now: number): SignatureVerdict {
  if (secrets.length === 0) return "unchecked";
  const good = secrets.some((secret) => verifyHex(body, headers, secret) && verifyStandard(body, headers, secret, now));
  return good ? "verified" : "refused";
}

/** The whole body; undefined when it is too large or the sender went away. */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > MAX_BODY) return undefined;
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch {
    return undefined;
  }
}
