/**
 * One HTTP/2 connection of one place: many requests side by side, bounded as HTTP/1 responses are. A session whose
 * response did not end in good order takes no new request, as an HTTP/1 connection would be closed then.
 */
import type { ClientHttp2Session, connect } from "node:http2";
import type { Socket } from "node:net";
import type { Timed } from "./deadlines.ts";
import { ClosedByRelay, InvalidResponse, StreamReset } from "./failure.ts";
import { HEAD_BYTES, RESPONSE_BYTES } from "./response-bytes.ts";
import { SessionStream, type StreamEnd, type StreamUser } from "./session-stream.ts";
import type { Target } from "./target.ts";
import { Wire } from "./wire.ts";

/** Most requests at once on one session, whatever the receiver allows. */
const MOST_STREAMS = 100;
/** Error codes of RFC 9113, section 7. */
const REFUSED_STREAM = 7;
/**
 * Codes of a response that breaks the protocol or a bound: PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED,
 * FRAME_SIZE_ERROR, COMPRESSION_ERROR, ENHANCE_YOUR_CALM.
 */
const BROKEN = new Set([1, 3, 5, 6, 9, 11]);

/** Learns what becomes of a session. */
export interface SessionOwner<Place extends Target = Target> {
  /** The receiver has said how many requests it takes at once. */
  ready(session: H2Session<Place>): void;
  /** It carries a request again, or none any more. */
  busy(session: H2Session<Place>): void;
  idle(session: H2Session<Place>): void;
  /** It takes no new request. */
  retired(session: H2Session<Place>): void;
  /** It is closed. Called once, after `retired`. */
  closed(session: H2Session<Place>): void;
}

export class H2Session<Place extends Target = Target> implements Timed {
  readonly place: Place;
  /** Monotonic ms at which its socket was opened. */
  readonly openedAt: number;
  /** While it is idle: monotonic ms at which it is closed, and its place among those that wait for that. */
  endsAt = 0;
  readonly #owner: SessionOwner<Place>;
  readonly #wire: Wire;
  readonly #session: ClientHttp2Session;
  readonly #streams = new Set<SessionStream>();
  /** Bytes that the receiver may still send. */
  #left = RESPONSE_BYTES;
  #cut = 0;
  #most = MOST_STREAMS;
  #retired = false;
  /** The last request that the receiver processes. */
  #last = Infinity;
  #excess = false;
  /** It has carried a request to its end. */
  #reused = false;
  #cause: Error | undefined;

  constructor(open: typeof connect, socket: Socket, place: Place, openedAt: number, owner: SessionOwner<Place>) {
    this.place = place;
    this.openedAt = openedAt;
    this.#owner = owner;
    this.#wire = new Wire(socket, (bytes) => this.#take(bytes));
    const session = open(place.origin, {
      createConnection: () => this.#wire,
      settings: { enablePush: false, maxHeaderListSize: HEAD_BYTES },
      maxHeaderListPairs: HEAD_BYTES / 32,
      maxReservedRemoteStreams: 0,
    });
    this.#session = session;
    session.on("error", (error) => (this.#cause ??= error));
    session.on("remoteSettings", ({ maxConcurrentStreams = MOST_STREAMS }) => {
      this.#most = Math.min(MOST_STREAMS, maxConcurrentStreams);
      owner.ready(this);
    });
    session.on("goaway", (_code, last) => {
      this.#last = Math.min(this.#last, last);
      this.retire();
    });
    session.on("close", () => this.#ended());
  }

  /** True while it carries a request. */
  get carries(): boolean {
    return this.#streams.size > 0;
  }

  /** True when it takes a request now. */
  get room(): boolean {
    return !this.#retired && this.#streams.size < this.#most && !this.#session.closed;
  }

  /** @throws TypeError when a header cannot be sent */
  send(path: string, headers: Readonly<Record<string, string>>, body: Uint8Array, user: StreamUser): SessionStream {
    const { authority } = this.place;
    const stream = this.#session.request(
      {
        ...headers,
        ":method": "POST",
        ":scheme": "https",
        ":authority": authority,
        ":path": path,
        "content-length": String(body.length),
      },
      { endStream: body.length === 0 },
    );
    if (this.#streams.size === 0) this.#owner.busy(this);
    this.#left += RESPONSE_BYTES;
    const sent = new SessionStream(stream, user, this.#wire.writes, (end) => this.#end(sent, end));
    this.#streams.add(sent);
    if (body.length > 0) stream.end(body);
    return sent;
  }

  /** Takes no new request, and closes when those under way have ended. */
  retire(): void {
    if (!this.#retired) {
      this.#retired = true;
      this.#owner.retired(this);
    }
    if (this.#streams.size === 0) this.#wire.destroy();
  }

  /** Closes it, because it has been idle for long enough. */
  expire(): void {
    this.retire();
  }

  /** Closes it, whatever it is doing. */
  async close(): Promise<void> {
    this.#cause ??= new ClosedByRelay();
    const closed = new Promise((resolve) => this.#session.once("close", resolve));
    this.#wire.destroy();
    await closed;
  }

  /** Each request allows the receiver the bytes of one response in any frames, and the session as much again. */
  #take(bytes: number): boolean {
    this.#left -= bytes;
    if (this.#left >= 0) return true;
    this.#excess = true;
    this.#wire.destroy();
    return false;
  }

  #end(stream: SessionStream, end: StreamEnd): void {
    if (!this.#streams.delete(stream)) return;
    // As much may be on its way for a response that is not read any further.
    if (end === "cut") this.#cut += 1;
    this.#left = Math.min(this.#left, RESPONSE_BYTES * (this.#streams.size + this.#cut + 1));
    if (end === "broken") this.#judge(stream);
    if (end !== "complete") return this.retire();
    this.#reused = true;
    if (this.#streams.size > 0) return;
    if (this.#retired) this.#wire.destroy();
    else this.#owner.idle(this);
  }

  /** Tells the user why the request failed. */
  #judge({ stream, user, writes, error = this.#cause }: SessionStream): void {
    if (error instanceof ClosedByRelay) return user.failed(error, false);
    if (this.#excess) return user.exceeded("bytes");
    const { id, rstCode } = stream;
    const unwritten = id === undefined || (this.#reused && this.#wire.writes === writes);
    const unsent = unwritten || id > this.#last || rstCode === REFUSED_STREAM;
    // A code of the receiver's GOAWAY stands in its streams too: it is no fault of a response.
    const broken = this.#last === Infinity && BROKEN.has(rstCode);
    user.failed(broken ? new InvalidResponse() : (error ?? new StreamReset()), unsent);
  }

  #ended(): void {
    // Streams end before their session; should one be left, its attempt must not wait for its deadline.
    for (const stream of this.#streams) stream.fail();
    this.retire();
    this.#owner.closed(this);
  }
}
