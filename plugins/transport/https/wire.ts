/**
 * The byte stream between a TLS connection and its HTTP/2 session. It counts every byte that comes in before the session
 * reads it: the session itself reads floods of control frames without a word to its user.
 */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";

type Done = (error?: Error | null) => void;

export class Wire extends Duplex {
  readonly #socket: Socket;
  /** How often the session has written to the connection. */
  writes = 0;

  /** @param take called with the length of each chunk; the session gets the chunk when it returns true */
  constructor(socket: Socket, take: (bytes: number) => boolean) {
    super({ autoDestroy: true });
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => {
      if (!this.destroyed && take(chunk.length) && !this.push(chunk)) socket.pause();
    });
    socket.once("end", () => void this.push(null));
    // Nothing is written to a connection that the receiver has ended: Node's session would do so, and fail an assertion.
    this.once("end", () => this.destroy());
    socket.on("error", (error) => this.destroy(error));
    socket.once("close", () => this.destroy());
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.writes += 1;
    this.#socket.write(chunk, done);
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: Done): void {
    this.writes += 1;
    // One record and one packet for the frames of one turn.
    this.#socket.write(Buffer.concat(chunks.map(({ chunk }) => chunk)), done);
  }

  override _final(done: Done): void {
    this.#socket.end(() => done());
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#socket.destroy();
    done(error);
  }
}
