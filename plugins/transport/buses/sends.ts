/** The sends of one connection that are under way: each ends once, by its reply, its deadline, its caller or the connection. */
import type { Clock } from "../../../core/ports/clock.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import { Deadlines, type Timed } from "../https/deadlines.ts";
import { timedOut } from "./replies.ts";

/** One send. Once it has ended, further ends change nothing. */
export interface Sending {
  readonly request: TransportRequest;
  readonly ended: boolean;
  end(reply: Reply): void;
}

class OneSend implements Sending, Timed, EventListenerObject {
  endsAt = 0;
  ended = false;
  readonly request: TransportRequest;
  readonly done = Promise.withResolvers<Reply>();
  readonly #signal: AbortSignal;
  /** Takes it off the lists; set once it is on them. */
  off: () => void = () => {};

  constructor(request: TransportRequest, signal: AbortSignal) {
    this.request = request;
    this.#signal = signal;
  }

  end(reply: Reply): void {
    if (this.ended) return;
    this.#over();
    this.done.resolve(reply);
  }

  expire(): void {
    this.end(timedOut(this.request.timeoutMs));
  }

  /** The caller aborts it. */
  handleEvent(): void {
    if (this.ended) return;
    this.#over();
    this.done.reject(this.#signal.reason);
  }

  #over(): void {
    this.ended = true;
    this.off();
  }
}

export class Sends {
  readonly #deadlines: Deadlines;
  readonly #all = new Set<OneSend>();

  constructor(clock: Clock) {
    this.#deadlines = new Deadlines(clock);
  }

  /**
   * Begins a send, which `publish` ends. What `publish` throws, or rejects with, becomes the reply of `failed`.
   * @param failed must not throw
   * @throws the signal's reason when it aborts
   */
  run(
    request: TransportRequest,
    signal: AbortSignal,
    publish: (sending: Sending) => Promise<Reply> | undefined,
    failed: (error: unknown) => Reply,
  ): Promise<Reply> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const sending = new OneSend(request, signal);
    this.#deadlines.add(sending, request.timeoutMs);
    signal.addEventListener("abort", sending);
    this.#all.add(sending);
    sending.off = () => {
      this.#deadlines.remove(sending, request.timeoutMs);
      signal.removeEventListener("abort", sending);
      this.#all.delete(sending);
    };
    const fail = (error: unknown): void => sending.end(failed(error));
    try {
      publish(sending)?.then((reply) => sending.end(reply), fail);
    } catch (error) {
      fail(error);
    }
    return sending.done.promise;
  }

  /** Ends all that are under way: the connection broke, and nobody knows which of them arrived. */
  endAll(reply: Reply): void {
    for (const sending of this.#all) sending.end(reply);
  }

  dispose(): void {
    this.#deadlines.dispose();
  }
}
