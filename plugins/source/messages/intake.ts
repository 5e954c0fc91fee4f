/**
 * The intake of a message source: gathers messages into groups, has each group stored, and says what became of every
 * message. A group that is refused is divided until each bad message stands alone, so that none blocks those behind it.
 */
import { MAX_BATCH_EVENTS } from "../../../core/model/event.ts";
import { isLater, Problem } from "../../../core/model/problem.ts";
import { Waiters } from "../../../core/lib/waiters.ts";
import { within } from "../../../core/lib/within.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Accept, Accepted, Publication } from "../../../core/ports/source.ts";
import { createBadMessages, type BadMessages } from "./bad-messages.ts";
import { derivedId, type Poison, type RawMessage, type Reading } from "./message.ts";
import { BACKLOG } from "./plugin.ts";
import { readMessage, type Draft } from "./read.ts";
import { createWindow } from "./window.ts";

/**
 * Learns what became of messages, of each once. They stay in flight until an answer resolves, and a stop waits five seconds
 * for it at most. When one rejects, upstream will deliver its messages again.
 */
export interface Upstream<Message extends RawMessage> {
  /** Acknowledges messages, in the order in which they were offered. */
  stored(messages: readonly Message[]): unknown;
  /**
   * Sets a message aside with the reason, and then acknowledges it.
   * @returns false when upstream keeps it all the same, and delivers it again: it is counted once
   */
  setAside(message: Message, poison: Poison): unknown;
  /** Gives messages back, because the source stops. Left out where upstream notices that by itself. */
  giveBack?(messages: readonly Message[]): unknown;
}

interface IntakeOptions<Message extends RawMessage> {
  readonly reading: Reading;
  /** Most messages that are offered and not settled; `room` waits for it. */
  readonly maxInFlight: number;
  readonly upstream: Upstream<Message>;
  /**
   * An id that belongs to an event with other content counts as stored: for events that each node makes by itself.
   * @default false
   */
  readonly firstWins?: boolean;
}

/** Counts what waits upstream. */
export interface Backlog {
  readonly count: number;
  /** Tells its first message from others, where upstream can say. */
  readonly first?: string | undefined;
}

/** A message with its events. */
interface Held<Message> {
  readonly message: Message;
  readonly drafts: readonly Draft[];
}

/** Most characters of a group, so that one commit stays small. */
const GROUP_TEXT = 2 * 1024 * 1024;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 30_000;
/** A stop waits so long for upstream: one that does not answer must not hold it up. */
const SETTLED_MS = 5_000;

export class Intake<Message extends RawMessage> {
  readonly #ctx: Pick<PluginContext, "clock" | "log" | "metrics">;
  readonly #options: IntakeOptions<Message>;
  readonly #source: string;
  readonly #bad: BadMessages;
  readonly #window: ReturnType<typeof createWindow>;
  readonly #room = new Waiters();
  readonly #stop = new AbortController();
  readonly #settling = new Set<Promise<unknown>>();
  #queue: Message[] = [];
  #accept: Accept | undefined;
  #running: Promise<void> | undefined;
  /** Say why there is no connection, why nothing is stored, and why upstream has not learned what became of messages. */
  #unreachable: string | undefined;
  #refusing: string | undefined;
  #untold: string | undefined;
  /** Epoch ms since when there is no connection, since when messages wait here, and since when the first one upstream does. */
  #awaySince: number | undefined;
  #waitsHere: number | undefined;
  #waitsThere: { readonly first: string; readonly since: number } | undefined;
  #hasWarned = false;

  constructor(ctx: Pick<PluginContext, "clock" | "log" | "metrics">, options: IntakeOptions<Message>) {
    this.#ctx = ctx;
    this.#options = options;
    this.#source = options.reading.source;
    this.#bad = createBadMessages(ctx, this.#source);
    this.#window = createWindow(options.maxInFlight);
  }

  /** Aborts when the source stops. */
  get stopping(): AbortSignal {
    return this.#stop.signal;
  }

  start(accept: Accept): void {
    this.#accept = accept;
    this.#lag();
  }

  /** Takes messages in, to be stored in this order. Returns at once. */
  offer(messages: readonly Message[]): void {
    this.#window.add(messages);
    if (this.stopping.aborted) return this.#giveBack(messages);
    this.#queue.push(...messages);
    this.#running ??= this.#run();
  }

  get isFull(): boolean {
    return this.#window.room() === 0;
  }

  /** Resolves to how many messages more may be in flight, fewer of large ones: at least one, or none once the source stops. */
  async room(): Promise<number> {
    while (this.isFull && !this.stopping.aborted) await this.#room.wait(this.stopping);
    return this.stopping.aborted ? 0 : this.#window.room();
  }

  /** Notes why upstream cannot be used; `undefined`: it can. */
  away(reason: string | undefined): void {
    const [{ log }, source] = [this.#ctx, this.#source];
    if (reason !== undefined && reason !== this.#unreachable) log.warn("a source has no upstream", { source, reason });
    if (reason === undefined && this.#unreachable !== undefined)
      log.info("a source has its upstream again", { source });
    this.#unreachable = reason;
    this.#awaySince = reason === undefined ? undefined : (this.#awaySince ?? this.#ctx.clock.now());
    this.#lag();
  }

  /** Notes what waits upstream. A first message that is still the same waits since it was first noted. */
  backlog({ count, first }: Backlog): void {
    const [{ clock, metrics }, source] = [this.#ctx, this.#source];
    metrics.gauge(BACKLOG.name, count, { source });
    if (first !== this.#waitsThere?.first)
      this.#waitsThere = first === undefined ? undefined : { first, since: clock.now() };
    this.#lag();
  }

  /** Returns the answer of `Source.readiness`, which each reading of the metrics asks for: the lag grows also while nothing comes. */
  readiness(): string | undefined {
    this.#lag();
    return this.#unreachable ?? (this.#refusing && `nothing can be stored now: ${this.#refusing}`);
  }

  /** Resolves when what is under way is settled and the rest given back. May be called twice. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error("stopping"));
    await this.#running;
    this.#giveBack(this.#queue.splice(0));
    const settled = (async () => {
      while (this.#settling.size > 0) await Promise.all(this.#settling);
    })();
    if (await within(this.#ctx.clock, SETTLED_MS, settled)) return;
    const source = this.#source;
    this.#ctx.log.warn("upstream could not be told in time what became of messages: they will come again", { source });
  }

  async #run(): Promise<void> {
    // Messages that are offered in this turn become one group.
    await Promise.resolve();
    while (this.#queue.length > 0 && !this.stopping.aborted) {
      const group = this.#nextGroup();
      if (group.length > 0) await this.#store(group);
      if (this.#queue.length === 0) this.#waitsHere = undefined;
      this.#lag();
    }
    this.#running = undefined;
  }

  /** Takes the next messages from the queue as far as they fit into one commit. */
  #nextGroup(): readonly Held<Message>[] {
    const group: Held<Message>[] = [];
    const dropped: Message[] = [];
    const bad: [Message, unknown][] = [];
    let [taken, events, size] = [0, 0, 0];
    for (const message of this.#queue) {
      try {
        const drafts = readMessage(message, this.#options.reading);
        const text = drafts.reduce((sum, draft) => sum + draft.text.length, 0);
        if (group.length > 0 && (events + drafts.length > MAX_BATCH_EVENTS || size + text > GROUP_TEXT)) break;
        if (drafts.length === 0) dropped.push(message);
        else group.push({ message, drafts });
        events += drafts.length;
        size += text;
      } catch (error) {
        bad.push([message, error]);
      }
      taken++;
    }
    this.#queue = this.#queue.slice(taken);
    this.#stored(dropped);
    for (const [message, error] of bad) this.#setAside(message, error);
    return group;
  }

  /** Stores a group, as often and as long as it takes. Each of its messages is settled when it resolves. */
  async #store(group: readonly Held<Message>[]): Promise<void> {
    const messages = group.map(({ message }) => message);
    const publications = publicationsOf(group);
    this.#waitsHere = messages[0]?.at ?? this.#ctx.clock.now();
    for (let tries = 0; !this.stopping.aborted; tries++) {
      try {
        const accepted = await (this.#accept as Accept)({ publications, source: this.#source });
        this.#refusing = undefined;
        this.#countRepeats(group, accepted);
        return this.#stored(messages);
      } catch (error) {
        if (!(error instanceof Problem) || isLater(error)) {
          await this.#later(error, tries);
          continue;
        }
        // Storage has answered about the events.
        this.#refusing = undefined;
        return this.#divide(group, error);
      }
    }
    this.#giveBack(messages);
  }

  /** Stores the good messages of a refused group, and sets the others aside. */
  async #divide(group: readonly Held<Message>[], refusal: Problem): Promise<void> {
    const [only] = group;
    if (group.length === 1 && only !== undefined) {
      const isFirst = this.#options.firstWins === true && refusal.code === "IDEMPOTENCY_MISMATCH";
      return isFirst ? this.#stored([only.message]) : this.#setAside(only.message, refusal);
    }
    /** For each publication, the place of its message in the group. */
    const owners = group.flatMap(({ drafts }, i) => drafts.map(() => i));
    const named = new Set<number>();
    for (const { path } of refusal.extras.errors ?? []) {
      const owner = owners[Number(/^\[(\d+)\]/.exec(path)?.[1] ?? -1)];
      if (owner !== undefined) named.add(owner);
    }
    if (named.size === 0 || named.size === group.length) {
      const half = Math.ceil(group.length / 2);
      await this.#store(group.slice(0, half));
      return this.#store(group.slice(half));
    }
    await this.#store(group.filter((_, i) => !named.has(i)));
    // Alone, each gets the reason that is its own.
    for (const i of named) await this.#store([group[i] as Held<Message>]);
  }

  async #later(error: unknown, tries: number): Promise<void> {
    const { clock, log } = this.#ctx;
    const reason = error instanceof Problem ? error.code : String(error);
    if (this.#refusing !== reason)
      log.warn("a source waits: nothing can be stored now", { source: this.#source, reason });
    this.#refusing = reason;
    this.#lag();
    const askedMs = error instanceof Problem ? (error.extras.retryAfter ?? 0) * 1_000 : 0;
    const waitMs = Math.min(LONGEST_WAIT_MS, Math.max(askedMs, FIRST_WAIT_MS * 2 ** Math.min(tries, 16)));
    await clock.sleep(clock.now() + waitMs, this.stopping).catch(() => undefined);
  }

  /** Shows since when something waits, or may: of an upstream that is away, nobody knows. */
  #lag(): void {
    const now = this.#ctx.clock.now();
    const ms = now - Math.min(now, this.#waitsHere ?? now, this.#waitsThere?.since ?? now, this.#awaySince ?? now);
    this.#ctx.metrics.gauge("source_lag_seconds", ms / 1_000, { source: this.#source });
  }

  #countRepeats(group: readonly Held<Message>[], accepted: readonly Accepted[]): void {
    let at = 0;
    let repeats = 0;
    for (const { message, drafts } of group) {
      const { duplicate = false, id } = accepted[at] ?? {};
      if (message.redelivered === true || duplicate) repeats++;
      if (duplicate && message.madePlace === true && id === derivedId(message.place)) this.#warnOfAlike(message);
      at += drafts.length;
    }
    if (repeats > 0) this.#ctx.metrics.count("source_redelivered", { source: this.#source }, repeats);
  }

  /** Two messages that nothing tells apart are one event: upstream says that the second was not delivered before. */
  #warnOfAlike({ redelivered }: Message): void {
    if (redelivered === true || this.#hasWarned) return;
    this.#hasWarned = true;
    const detail = "messages without an id that are alike become one event: let their publisher set message-id";
    this.#ctx.log.warn("a new message is taken for one that was stored", { source: this.#source, detail });
  }

  #stored(messages: readonly Message[]): void {
    this.#settle(messages, () => this.#options.upstream.stored(messages));
  }

  #giveBack(messages: readonly Message[]): void {
    this.#settle(messages, () => this.#options.upstream.giveBack?.(messages));
  }

  #setAside(message: Message, error: unknown): void {
    const poison = this.#bad.note(message, error);
    this.#settle([message], async () => {
      let isKept = true;
      try {
        isKept = (await this.#options.upstream.setAside(message, poison)) === false;
      } finally {
        if (!isKept) this.#bad.forget(message);
      }
    });
  }

  #settle(messages: readonly Message[], tell: () => unknown): void {
    if (messages.length === 0) return;
    const settling: Promise<unknown> = (async () => tell())()
      .then(
        () => undefined,
        (cause: unknown) => String(cause),
      )
      .then((error) => {
        if (error !== undefined && error !== this.#untold)
          this.#ctx.log.warn("upstream was not told what became of messages", { source: this.#source, error });
        this.#untold = error;
      })
      .finally(() => {
        this.#settling.delete(settling);
        for (const message of messages) this.#window.remove(message);
        this.#room.wake();
      });
    this.#settling.add(settling);
  }
}

/** Joins the events of a group of messages into one request. */
function publicationsOf(group: readonly Held<unknown>[]): readonly Publication[] {
  const drafts = group.flatMap((held) => held.drafts);
  const isSingle = group.length === 1 && drafts.length === 1;
  return drafts.map((draft, i) => ({ ...draft, path: isSingle ? "" : `[${i}]` }));
}
