/** One request on an HTTP/2 session, and its response. */
import type { ClientHttp2Stream, IncomingHttpHeaders } from "node:http2";
import { InvalidResponse } from "./failure.ts";
import { MOST_INFORMATIONAL, type Excess } from "./response-bytes.ts";

/** Error codes of RFC 9113, section 7. */
const NO_ERROR = 0;
const CANCEL = 8;

export interface StreamUser {
  responded(status: number, headers: IncomingHttpHeaders): void;
  received(chunk: Uint8Array): void;
  completed(): void;
  /** @param unsent the receiver has not processed it, so it may be sent again */
  failed(error: Error, unsent: boolean): void;
  exceeded(excess: Excess): void;
}

/** `cut`: the user gave it up. `broken`: it ended without a complete response. */
export type StreamEnd = "complete" | "cut" | "broken";

export class SessionStream {
  readonly stream: ClientHttp2Stream;
  readonly user: StreamUser;
  /** How often the session had written to its connection before. */
  readonly writes: number;
  error: Error | undefined;
  readonly #end: (end: StreamEnd) => void;
  #over = false;
  #responded = false;
  #informational = 0;

  constructor(stream: ClientHttp2Stream, user: StreamUser, writes: number, end: (end: StreamEnd) => void) {
    this.stream = stream;
    this.user = user;
    this.writes = writes;
    this.#end = end;
    stream.on("headers", () => {
      this.#informational += 1;
      if (!this.#over && this.#informational > MOST_INFORMATIONAL) user.exceeded("informational");
    });
    stream.on("response", (headers) => {
      const { ":status": status = 0 } = headers;
      if (status < 200) this.error ??= new InvalidResponse();
      if (status < 200 || this.#over) return stream.close(CANCEL);
      this.#responded = true;
      user.responded(status, headers);
    });
    stream.on("data", (chunk: Buffer) => {
      if (!this.#over) user.received(chunk);
    });
    stream.on("end", () => {
      if (!this.#responded || stream.rstCode !== NO_ERROR || stream.aborted) return;
      if (this.#finish("complete")) user.completed();
      // It may have answered before it had read the request.
      if (!stream.writableFinished) stream.close(CANCEL);
    });
    stream.on("error", (error) => (this.error ??= error));
    stream.on("close", () => this.fail());
  }

  /** Gives it up: no more callbacks follow. */
  cut(): void {
    if (this.#finish("cut")) this.stream.close(CANCEL);
  }

  /** It ended without a complete response. */
  fail(): void {
    this.#finish("broken");
  }

  #finish(end: StreamEnd): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#end(end);
    return true;
  }
}
