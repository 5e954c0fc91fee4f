/** A transport over one named connection: all that NATS, a folder of files and a mail server have in common. */
import { endsWithin, unlessAborted } from "../../../core/lib/within.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import type { Log, PluginContext } from "../../../core/ports/plugin.ts";
import type { Reply, Transport, TransportRequest } from "../../../core/ports/transport.ts";
import { keepConnected } from "../../brokers/keep-connected.ts";
import { Deadlines } from "../https/deadlines.ts";
import { refused, unavailable } from "./replies.ts";
import { Sending } from "./sending.ts";

interface BusKind {
  /** Without a colon: `nats`. */
  readonly scheme: string;
  readonly name: string;
  /** For people: `NATS`, which takes `messages`. */
  readonly system: string;
  readonly takes: string;
  /**
   * Matches what stands behind `scheme://name/`; its groups are the parts of the destination. It decides alone what a URL
   * may reach, so that no subscriber gets at what the bus keeps for itself.
   */
  readonly pattern: RegExp;
  /** The pattern, for people. */
  readonly rule: string;
}

/** How long a fault counts after the last send that met it, ms: longer than a subscription is paused for it. */
const FAULT_MS = 30_000;
/** Longest wait between attempts to connect, ms: subscriptions are paused for not much longer. */
const AGAIN_MS = 2_000;
const CLOSE_MS = 1_000;

export abstract class Bus implements Transport {
  readonly schemes: readonly string[];
  readonly name: string;
  protected readonly kind: BusKind;
  protected readonly clock: Clock;
  protected readonly log: Log;
  readonly #start: string;
  readonly #problem: string;
  readonly #deadlines: Deadlines;
  readonly #sendings = new Set<Sending>();
  #fault: { readonly words: string; readonly at: number } | undefined;

  constructor(kind: BusKind, { clock, log }: Pick<PluginContext, "clock" | "log">) {
    this.schemes = [kind.scheme];
    this.name = kind.name;
    this.kind = kind;
    this.clock = clock;
    this.log = log;
    this.#start = `${kind.scheme}://${kind.name}/`;
    this.#problem = `must be ${this.#start} and ${kind.rule}`;
    this.#deadlines = new Deadlines(clock);
  }

  /** Sends once, to the parts of the destination. What it throws becomes the reply of `failed`. */
  protected abstract publish(parts: readonly string[], request: TransportRequest, sending: Sending): Promise<Reply>;

  /** Must not throw. */
  protected abstract failed(error: unknown, parts: readonly string[]): Reply;

  /** Lets go of what is open; nothing is sent after it. */
  protected abstract close(): Promise<void> | void;

  problems(url: string): string | undefined {
    return this.#partsOf(url) === undefined ? this.#problem : undefined;
  }

  readiness(): string | undefined {
    return this.#faultWords();
  }

  send(request: TransportRequest, signal: AbortSignal): Promise<Reply> {
    const parts = this.#partsOf(request.url);
    if (parts === undefined) return Promise.resolve(refused(`the URL ${this.#problem}`));
    if (signal.aborted) return Promise.reject(signal.reason);
    const sending = new Sending(request, signal, () => {
      this.#deadlines.remove(sending, request.timeoutMs);
      this.#sendings.delete(sending);
    });
    this.#deadlines.add(sending, request.timeoutMs);
    this.#sendings.add(sending);
    this.publish(parts, request, sending).then(
      (reply) => {
        if (reply.kind === "response") this.#fault = undefined;
        sending.end(reply);
      },
      (error: unknown) => sending.end(this.failed(error, parts)),
    );
    return sending.reply;
  }

  async dispose(): Promise<void> {
    this.#deadlines.dispose();
    await this.close();
  }

  /** Ends all sends that are under way, because nobody knows any more which of them arrive. */
  protected endSends(): void {
    for (const sending of this.#sendings) sending.end(unavailable(this.name));
  }

  /** Replies that the bus takes nothing though it is there, which `readiness` and the log say too. */
  protected takesNothing(words: string, error: unknown = words): Reply {
    if (this.isNews(words))
      this.log.warn(`${this.kind.system} takes no ${this.kind.takes}`, { transport: this.name, error: String(error) });
    return unavailable(this.name);
  }

  /** Notes why it takes nothing, for `readiness`. Returns true for words that are not noted yet. */
  protected isNews(words: string): boolean {
    const news = this.#faultWords() !== words;
    this.#fault = { words, at: this.clock.monotonic() };
    return news;
  }

  #faultWords(): string | undefined {
    const fault = this.#fault;
    return fault === undefined || this.clock.monotonic() - fault.at > FAULT_MS ? undefined : fault.words;
  }

  #partsOf(url: string): readonly string[] | undefined {
    const match = url.startsWith(this.#start) ? this.kind.pattern.exec(url.slice(this.#start.length)) : null;
    return match?.slice(1).map((part) => part ?? "");
  }
}

/** A bus whose connection is kept: opened again for as long as the relay runs, and reported when it is lost. */
export abstract class ConnectedBus extends Bus {
  readonly #end = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #up = false;
  /** Why there is no connection: logged once for the same reason in a row. */
  #said: string | undefined;

  /**
   * Works until the signal aborts or the connection is lost for good; it leaves nothing open.
   * @param up called when something can be sent, as often as the connection is there again
   */
  protected abstract session(signal: AbortSignal, up: () => void): Promise<void>;

  /** True when something can be sent now. */
  protected get up(): boolean {
    return this.#up;
  }

  override readiness(): string | undefined {
    if (this.#up) return super.readiness();
    return ["is not connected", this.#said].filter((part) => part !== undefined).join(": ");
  }

  connect(): this {
    const keeper = {
      stopping: this.#end.signal,
      away: (why: string | undefined) => this.#report(why),
      longestMs: AGAIN_MS,
    };
    this.#running = keepConnected(keeper, this.clock, async (signal, connected) => {
      const up = (): void => {
        this.#up = !signal.aborted;
        connected();
      };
      try {
        await this.session(signal, up);
      } finally {
        this.#lost();
      }
    });
    return this;
  }

  /** Notes that the connection is lost within a session that goes on. */
  protected down(why: string): void {
    this.#report(why);
    this.#lost();
  }

  protected async close(): Promise<void> {
    this.#end.abort();
    this.#up = false;
    await endsWithin(this.clock, CLOSE_MS, this.#running);
  }

  #lost(): void {
    this.#up = false;
    this.endSends();
  }

  #report(why: string | undefined): void {
    if (this.#end.signal.aborted || why === this.#said) return;
    const { system } = this.kind;
    if (why === undefined) this.log.info(`the connection to ${system} is there again`, { transport: this.name });
    else this.log.warn(`a connection to ${system} failed`, { transport: this.name, error: why });
    this.#said = why;
  }
}

/** A bus whose client keeps no connection: it is asked until it answers, and again after a send that did not find it. */
export abstract class AskedBus extends ConnectedBus {
  /** Rejects when a send does not find the bus: nothing is sent until it answers again. */
  #lost = Promise.withResolvers<never>();

  /** Resolves when the bus answers and lets the relay in. */
  protected abstract ask(signal: AbortSignal): Promise<unknown>;

  protected async session(signal: AbortSignal, up: () => void): Promise<void> {
    await unlessAborted(signal, this.ask(signal));
    this.#lost = Promise.withResolvers<never>();
    up();
    await unlessAborted(signal, this.#lost.promise);
  }

  /** Replies to a send that did not find it. */
  protected notFound(error: unknown): Reply {
    this.#lost.reject(error);
    return unavailable(this.name);
  }
}
