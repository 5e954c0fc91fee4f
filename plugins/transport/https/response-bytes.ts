/**
 * Watches the bytes of one response between the socket and the HTTP parser. It bounds all of them, not only the body:
 * chunk extensions, trailers and informational answers count too. It removes informational (1xx) answers, which a
 * client has to accept unasked (RFC 9110, 15.2): undici ends the connection at an unsolicited 100.
 */

/** Bytes of a response's body that are read before the connection is closed. */
export const BODY_BYTES = 65_536;
/** Longest head of a response: what undici accepts. */
export const HEAD_BYTES = 16_384;
/** Bytes of the connection for one response: a body of the longest size, and the longest head. */
export const RESPONSE_BYTES = BODY_BYTES + HEAD_BYTES;
/** Most informational answers before the real one. */
export const MOST_INFORMATIONAL = 10;

const STATUS_LINE = Buffer.from("HTTP/1.");
/** Where the status begins in `HTTP/1.1 200 OK`. */
const STATUS_AT = 9;
const ONE = 0x31;
const HEAD_END = "\r\n\r\n";

/** Why a response is not read any further. */
export type Excess = "bytes" | "informational";

export class ResponseBytes {
  #read = 0;
  #informational = 0;
  /** The real answer has begun: the rest goes to the parser unchanged. */
  #begun = false;
  /** The beginning of an answer that may be informational. */
  #held: Buffer | undefined;

  /** Begins the next response of the connection. */
  reset(): void {
    this.#read = 0;
    this.#informational = 0;
    this.#begun = false;
    this.#held = undefined;
  }

  /** Returns what the parser gets of a chunk; `undefined` while that is nothing. */
  take(chunk: Buffer): Buffer | Excess | undefined {
    this.#read += chunk.length;
    if (this.#read > RESPONSE_BYTES) return "bytes";
    if (this.#begun) return chunk;
    let rest = this.#held === undefined ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = undefined;
    while (mayBeInformational(rest)) {
      const end = rest.length > STATUS_AT ? rest.indexOf(HEAD_END, STATUS_AT, "latin1") : -1;
      if (end < 0) {
        this.#held = rest;
        return undefined;
      }
      this.#informational += 1;
      if (this.#informational > MOST_INFORMATIONAL) return "informational";
      rest = rest.subarray(end + HEAD_END.length);
    }
    this.#begun = true;
    return rest;
  }
}

/** True for the beginning of a 1xx answer, and while too little is known of it. A 101 is not skipped. */
function mayBeInformational(bytes: Buffer): boolean {
  if (bytes.length > STATUS_AT && bytes[STATUS_AT] !== ONE) return false;
  const known = Math.min(bytes.length, STATUS_LINE.length);
  if (bytes.compare(STATUS_LINE, 0, known, 0, known) !== 0) return false;
  return bytes.length < STATUS_AT + 3 || bytes.toString("latin1", STATUS_AT, STATUS_AT + 3) !== "101";
}
