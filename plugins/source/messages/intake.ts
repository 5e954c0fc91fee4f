/**
 * The intake of a message source: gathers messages into groups, has each group stored, and says what became of every
 * message. A group that is refused is divided until each bad message stands alone, so that none blocks those behind it.
 */
import { MAX_BATCH_EVENTS } from "../../../core/model/event.ts";
import { Problem } from "../../../core/model/problem.ts";
import { within } from "../../../core/lib/within.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Accept, Accepted, Publication } from "../../../core/ports/source.ts";
import { createBadMessages } from "./bad-messages.ts";
import type { Fate, RawMessage, Reading, Settled } from "./message.ts";
import { isPermanent } from "./poison.ts";
import { readMessage, type Draft } from "./read.ts";
import { createWindow } from "./window.ts";

interface IntakeOptions<Message extends RawMessage> {
  readonly reading: Reading;
  /** Most messages that are offered and not settled; `room` waits for it. */
  readonly maxInFlight: number;
  /**
   * Whether an id that belongs to an event with other content counts as stored: for events that each node makes by itself.
   * @default false
   */
  readonly firstWins?: boolean;
  /**
   * Tells upstream what became of messages, each of them once. The messages stay in flight until it resolves, and a stop
   * waits for it, five seconds at most. When it rejects, upstream will deliver them again.
   * @returns bad messages that upstream keeps, because they could not be set aside: each is counted once all the same
   */
  settle(settled: readonly Settled<Message>[]): Promise<readonly Message[] | void> | readonly Message[] | void;
}

export interface Intake<Message extends RawMessage> {
  /** Aborts when the source stops. */
  readonly stopping: AbortSignal;
  start(accept: Accept): void;
  /** Takes messages in, to be stored in this order. Returns at once. */
  offer(messages: readonly Message[]): void;
  /** Resolves to how many messages more may be in flight, fewer of large ones: at least one, or none once the source stops. */
  room(): Promise<number>;
  /** Says why upstream cannot be used; `undefined`: it can. */
  away(reason: string | undefined): void;
  /** What `Source.readiness` returns. */
  readiness(): string | undefined;
  /**
   * Resolves when what is under way is stored and settled and the rest was returned. Upstream delivers again what it could
   * not be told of in time. May be called twice.
   */
  stop(): Promise<void>;
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
/** How long a stop waits until upstream has been told: one that does not answer must not hold it up. */
const TOLD_MS = 5_000;

export function createIntake<Message extends RawMessage>(
  { clock, log, metrics }: PluginContext,
  { reading, maxInFlight, firstWins = false, settle }: IntakeOptions<Message>,
): Intake<Message> {
  const { source } = reading;
  const stopping = new AbortController();
  const settling = new Set<Promise<void>>();
  const bad = createBadMessages({ log, metrics }, source);
  let accept: Accept | undefined;
  let queue: Message[] = [];
  const window = createWindow(maxInFlight);
  let running: Promise<void> | undefined;
  let roomy = Promise.withResolvers<void>();
  let unreachable: string | undefined;
  let refusing: string | undefined;

  async function run(): Promise<void> {
    // What is offered in this turn becomes one group.
    await Promise.resolve();
    for (let group = nextGroup(); group !== undefined; group = nextGroup()) {
      const oldest = group[0]?.message.at;
      if (group.length > 0) await store(group);
      const lag = queue.length === 0 || oldest === undefined ? 0 : clock.now() - oldest;
      metrics.gauge("source_lag_seconds", Math.max(0, lag) / 1_000, { source });
    }
    running = undefined;
  }

  /** Takes the next messages from the queue as far as they fit into one commit; `undefined` when there is none. */
  function nextGroup(): readonly Held<Message>[] | undefined {
    if (queue.length === 0 || stopping.signal.aborted) return undefined;
    const group: Held<Message>[] = [];
    const ended: Settled<Message>[] = [];
    let [taken, events, size] = [0, 0, 0];
    for (const message of queue) {
      try {
        const drafts = readMessage(message, reading);
        const text = drafts.reduce((sum, draft) => sum + draft.text.length, 0);
        if (group.length > 0 && (events + drafts.length > MAX_BATCH_EVENTS || size + text > GROUP_TEXT)) break;
        if (drafts.length === 0) ended.push({ message, fate: STORED });
        else group.push({ message, drafts });
        events += drafts.length;
        size += text;
      } catch (error) {
        ended.push({ message, fate: bad.fateOf(message, error) });
      }
      taken++;
    }
    queue = queue.slice(taken);
    // Apart: a bad message may take long to be set aside, and the others are not in flight for as long.
    tell(ended.filter(({ fate }) => fate.kind !== "poison"));
    tell(ended.filter(({ fate }) => fate.kind === "poison"));
    return group;
  }

  /** Stores a group, as often and as long as it takes. Each of its messages is settled when it resolves. */
  async function store(group: readonly Held<Message>[]): Promise<void> {
    const { publications, owners } = publicationsOf(group);
    for (let tries = 0; !stopping.signal.aborted; tries++) {
      try {
        const accepted = await (accept as Accept)({ publications, source });
        refusing = undefined;
        countRepeats(group, accepted);
        return tell(group.map(({ message }) => ({ message, fate: STORED })));
      } catch (error) {
        if (!isPermanent(error)) {
          await later(error, tries, group[0]?.message.at);
          continue;
        }
        // Storage has answered about the events.
        refusing = undefined;
        return divide(group, owners, error);
      }
    }
    tell(group.map(({ message }) => ({ message, fate: RETURNED })));
  }

  /** Stores the good messages of a refused group, and sets the others aside. */
  async function divide(group: readonly Held<Message>[], owners: readonly number[], refusal: Problem): Promise<void> {
    const [only] = group;
    if (group.length === 1 && only !== undefined) {
      const { message } = only;
      const first = firstWins && refusal.code === "IDEMPOTENCY_MISMATCH";
      return tell([{ message, fate: first ? STORED : bad.fateOf(message, refusal) }]);
    }
    const named = new Set<number>();
    for (const { path } of refusal.extras.errors ?? []) {
      const owner = owners[Number(/^\[(\d+)\]/.exec(path)?.[1] ?? -1)];
      if (owner !== undefined) named.add(owner);
    }
    if (named.size === 0 || named.size === group.length) {
      const half = Math.ceil(group.length / 2);
      await store(group.slice(0, half));
      return store(group.slice(half));
    }
    await store(group.filter((_, i) => !named.has(i)));
    // Alone, each gets the reason that is its own.
    for (const i of named) await store([group[i] as Held<Message>]);
  }

  async function later(error: unknown, tries: number, at: number | undefined): Promise<void> {
    const reason = error instanceof Problem ? error.code : String(error);
    if (refusing !== reason) log.warn("a source waits: nothing can be stored now", { source, reason });
    refusing = reason;
    if (at !== undefined) metrics.gauge("source_lag_seconds", Math.max(0, clock.now() - at) / 1_000, { source });
    const asked = error instanceof Problem ? (error.extras.retryAfter ?? 0) * 1_000 : 0;
    const waitMs = Math.min(LONGEST_WAIT_MS, Math.max(asked, FIRST_WAIT_MS * 2 ** Math.min(tries, 16)));
    await clock.sleep(clock.now() + waitMs, stopping.signal).catch(() => undefined);
  }

  function countRepeats(group: readonly Held<Message>[], accepted: readonly Accepted[]): void {
    let at = 0;
    let repeats = 0;
    for (const { message, drafts } of group) {
      if (message.redelivered === true || accepted[at]?.duplicate === true) repeats++;
      at += drafts.length;
    }
    if (repeats > 0) metrics.count("source_redelivered", { source }, repeats);
  }

  function tell(settled: readonly Settled<Message>[]): void {
    if (settled.length === 0) return;
    const told = (async () => settle(settled))()
      .then(
        (kept) => bad.settled(settled, new Set(kept ?? [])),
        (error: unknown) => {
          bad.settled(settled, new Set(settled.map(({ message }) => message)));
          log.warn("upstream was not told what became of messages", { source, error: String(error) });
        },
      )
      .finally(() => {
        settling.delete(told);
        for (const { message } of settled) window.remove(message);
        release();
      });
    settling.add(told);
  }

  async function allTold(): Promise<void> {
    while (settling.size > 0) await Promise.all(settling);
  }

  /** Wakes all that wait for room. */
  function release(): void {
    roomy.resolve();
    roomy = Promise.withResolvers();
  }

  return {
    stopping: stopping.signal,
    start(given) {
      accept = given;
    },
    offer(messages) {
      window.add(messages);
      if (stopping.signal.aborted) return tell(messages.map((message) => ({ message, fate: RETURNED })));
      queue.push(...messages);
      running ??= run();
    },
    async room() {
      while (window.room() === 0 && !stopping.signal.aborted) await roomy.promise;
      return stopping.signal.aborted ? 0 : window.room();
    },
    away(reason) {
      if (reason !== undefined && reason !== unreachable) log.warn("a source has no upstream", { source, reason });
      if (reason === undefined && unreachable !== undefined) log.info("a source has its upstream again", { source });
      unreachable = reason;
    },
    readiness: () => unreachable ?? (refusing === undefined ? undefined : `nothing can be stored now: ${refusing}`),
    async stop() {
      stopping.abort(new Error("stopping"));
      release();
      await running;
      const rest = queue.splice(0);
      tell(rest.map((message) => ({ message, fate: RETURNED })));
      if (!(await within(clock, TOLD_MS, allTold())))
        log.warn("upstream could not be told in time what became of messages: they will come again", { source });
    },
  };
}

const STORED: Fate = { kind: "stored" };
const RETURNED: Fate = { kind: "returned" };

/** Joins the events of a group of messages into one request. */
function publicationsOf(group: readonly Held<unknown>[]) {
  const publications: Publication[] = [];
  /** For each publication, the place of its message in the group. */
  const owners: number[] = [];
  const single = group.length === 1 && group[0]?.drafts.length === 1;
  for (const [owner, { drafts }] of group.entries()) {
    for (const draft of drafts) {
      publications.push({ ...draft, path: single ? "" : `[${publications.length}]` });
      owners.push(owner);
    }
  }
  return { publications, owners };
}
