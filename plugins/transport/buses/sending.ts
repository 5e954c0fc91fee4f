/** One send of a bus. It ends once: by its reply, its deadline, its caller or the connection. */
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import type { Timed } from "../https/deadlines.ts";
import { timedOut } from "./replies.ts";

/** Once it has ended, further ends change nothing. */
export class Sending implements Timed, EventListenerObject {
  endsAt = 0;
  ended = false;
  readonly request: TransportRequest;
  readonly #done = Promise.withResolvers<Reply>();
  readonly #caller: AbortSignal;
  readonly #off: (sending: Sending) => void;
  #over: AbortController | undefined;

  /** @param off called when it ends */
  constructor(request: TransportRequest, caller: AbortSignal, off: (sending: Sending) => void) {
    this.request = request;
    this.#caller = caller;
    this.#off = off;
    caller.addEventListener("abort", this);
  }

  /** Rejects with the reason of a caller who gives up. */
  get reply(): Promise<Reply> {
    return this.#done.promise;
  }

  /** Aborts when it ends, whatever ends it. */
  get over(): AbortSignal {
    this.#over ??= new AbortController();
    return this.#over.signal;
  }

  end(reply: Reply): void {
    if (this.#ends()) this.#done.resolve(reply);
  }

  expire(): void {
    this.end(timedOut(this.request.timeoutMs));
  }

  /** The caller gives up. */
  handleEvent(): void {
    if (this.#ends()) this.#done.reject(this.#caller.reason);
  }

  #ends(): boolean {
    if (this.ended) return false;
    this.ended = true;
    this.#caller.removeEventListener("abort", this);
    this.#off(this);
    this.#over?.abort();
    return true;
  }
}
