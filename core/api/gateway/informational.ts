/**
 * Removes informational (1xx) answers of the upstream. A client has to accept them unasked (RFC 9110 §15.2), but undici ends
 * the connection at a 100: a payment that the upstream has made would be answered with 502, and made again.
 */
import type { Socket } from "node:net";

/** Where the status ends in `HTTP/1.1 100 Continue`. */
const STATUS_END = 12;
const HEAD_END = "\r\n\r\n";
/** The longest head that undici takes, bytes: it refuses a longer one itself. */
const LONGEST_HEAD = 16_384;

/** undici's parser takes its input from `read`, and begins each request with one `write` of its head as text. */
export function withoutInformational(socket: Socket): Socket {
  const read = socket.read.bind(socket);
  const write = socket.write.bind(socket) as (...args: readonly unknown[]) => boolean;
  /** The answer to the newest request has not begun. */
  let awaited = false;
  /** The beginning of an answer that may be informational. */
  let held: Buffer | undefined;

  socket.write = (...args: readonly unknown[]): boolean => {
    // Only heads and sizes of chunks are text.
    if (typeof args[0] === "string" && args[0].includes(" HTTP/1.1\r\n")) awaited = true;
    return write(...args);
  };

  socket.read = (size?: number): unknown => {
    for (;;) {
      const chunk = read(size) as Buffer | null;
      if (chunk === null || !awaited) return chunk;
      let rest = held === undefined ? chunk : Buffer.concat([held, chunk]);
      held = undefined;
      for (let end = 0; mayBeInformational(rest) && end >= 0;) {
        end = rest.indexOf(HEAD_END, 0, "latin1");
        if (end >= 0) rest = rest.subarray(end + HEAD_END.length);
      }
      if (mayBeInformational(rest) && rest.length < LONGEST_HEAD) {
        held = rest;
        continue;
      }
      awaited = false;
      return rest;
    }
  };
  return socket;
}

/** True for the beginning of a 1xx answer, and while too little is known of it. A 101 is for undici to refuse. */
function mayBeInformational(bytes: Buffer): boolean {
  const start = bytes.toString("latin1", 0, STATUS_END);
  return start.length < STATUS_END ? "HTTP/1.".startsWith(start.slice(0, 7)) : /^HTTP\/1\.\d 1(?!01)\d\d$/.test(start);
}
