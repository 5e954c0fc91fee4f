/** Passes a request's body to the upstream: counts it, and reads no faster than the upstream takes it. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { Problem } from "../../model/problem.ts";
import { DRAINED, Gone, hasBody } from "../http/body.ts";

/**
 * Whether the body may come: transfer codings beyond chunked have been refused with the head already.
 * @throws Problem for a body that is announced as too long, or where none belongs
 */
export function checkBody(req: IncomingMessage, maxBytes: number): void {
  if (hasBody(req) && (req.method === "GET" || req.method === "HEAD")) {
    // Servers that expect none take it for the next request on the connection.
    const errors = [{ path: "", message: "must not be there" }];
    throw new Problem("VALIDATION_FAILED", `Send a ${req.method} without a body.`, { errors, ...CLOSE });
  }
  if (Number(req.headers["content-length"] ?? 0) > maxBytes) throw tooLarge(maxBytes);
}

const CLOSE = { headers: { connection: "close" } } as const;
const tooLarge = (maxBytes: number): Problem =>
  new Problem("PAYLOAD_TOO_LARGE", `Send at most ${maxBytes} bytes.`, CLOSE);

/**
 * The body as a stream of its own: destroying it leaves the client's connection alone, and what still comes is dropped.
 * @param failed is called once, with Problem PAYLOAD_TOO_LARGE, or Gone when the client left before the end
 * @param whole called when all of it has come
 */
export function openUpload(
  req: IncomingMessage,
  maxBytes: number,
  failed: (error: Error) => void,
  whole: () => void,
): Readable {
  let size = 0;
  const upload = new Readable({ read: () => void req.resume() });
  // The caller that destroys the stream knows the reason.
  upload.on("error", () => undefined);
  upload.once("close", () => req.resume());
  const fail = (error: Error): void => {
    if (upload.destroyed) return;
    upload.destroy();
    failed(error);
  };
  req.on("data", (chunk: Buffer) => {
    size += chunk.length;
    if (size > maxBytes) {
      fail(tooLarge(maxBytes));
      if (size > DRAINED) req.destroy();
    } else if (!upload.destroyed && !upload.push(chunk)) req.pause();
  });
  req.once("end", () => {
    whole();
    if (!upload.destroyed) upload.push(null);
  });
  req.once("error", () => fail(new Gone()));
  req.once("close", () => {
    if (!req.complete) fail(new Gone());
  });
  return upload;
}
