/**
 * Sends the requests of troubled subscriptions in a thread of their own, so that the handshakes and answers of receivers
 * that fail or dawdle take no time of the thread that serves the healthy ones. The thread is started when there are many
 * such requests, and ended when there are few. Whenever it does not run, they are sent here, as all others are.
 */
import { MessageChannel, type MessagePort, type Worker } from "node:worker_threads";
import { within } from "../../model/within.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/plugin.ts";
import type { Reply, Transport, TransportRequest } from "../../ports/transport.ts";
import { createLink, type Link } from "../threads/link.ts";
import { sendable, type SideRequest, type SideStart } from "./side-call.ts";

/** Starts the thread with this as its `workerData`. What it logs is written with the lines of this process. */
export type SpawnSideThread = (start: SideStart, ports: readonly MessagePort[]) => Worker | Promise<Worker>;

export interface SideThread {
  /**
   * Returns a transport that sends troubled requests in the side thread.
   * @param place of its plug-in in the plan
   */
  beside(transport: Transport, place: number): Transport;
  /** Ends the thread; requests under way in it reject. */
  stop(): Promise<void>;
}

/** When the thread is started and ended. */
interface SideBounds {
  /** How often the requests are counted and the thread is checked for life, ms. */
  readonly lookMs: number;
  /** Troubled requests between two looks from which the thread is worth its 30 MB. */
  readonly many: number;
  /** Looks in a row with fewer requests after which it is ended. */
  readonly quietLooks: number;
}

/** Ten of them a second start it; ten minutes with fewer end it. */
const BOUNDS: SideBounds = { lookMs: 5_000, many: 50, quietLooks: 120 };
/** Longest time for its start, for a sign of life and for letting go, ms. */
const START_MS = 60_000;
const ALIVE_MS = 20_000;
const STOP_MS = 1_000;
/** Longest time that a planned end waits for requests under way: more than an attempt may take, ms. */
const DRAIN_MS = 120_000;
/** After a thread that ended by itself or could not start, another one is started no sooner than this, ms. */
const PAUSE_MS = 60_000;

interface Running {
  readonly worker: Worker;
  readonly link: Link;
}

export function createSideThread(deps: {
  readonly spawn: SpawnSideThread;
  readonly clock: Clock;
  readonly log: Log;
  readonly bounds?: SideBounds;
}): SideThread {
  const { spawn, clock, log, bounds = BOUNDS } = deps;
  const places: number[] = [];
  const over = new AbortController();
  /** It has started and takes requests. */
  let running: Running | undefined;
  /** Goes on as long as there is anything to look at. */
  let looking: Promise<void> | undefined;
  /** Requests that it has not answered yet. */
  const underWay = new Set<Promise<Reply>>();
  /** Troubled requests since the last look. */
  let asked = 0;
  /** Looks in a row with few of them. */
  let quiet = 0;
  let calls = 0;
  /** Monotonic time before which none is started. */
  let notBefore = -Infinity;

  async function start(): Promise<void> {
    const { port1, port2 } = new MessageChannel();
    const made = await spawn({ transports: places, control: port2 }, [port2]);
    const link = createLink(port1, () => undefined);
    let why: Error | undefined;
    made.on("error", (error: unknown) => (why = error instanceof Error ? error : new Error("it threw")));
    made.on("exit", () => {
      link.end();
      port1.close();
      if (running?.worker !== made) return;
      lost("the side thread ended", why?.message ?? "it exited");
    });
    try {
      const begun = link.call("start", []);
      if (!(await within(clock, START_MS, begun, over.signal))) throw new Error("it does not start in time");
      if (over.signal.aborted) throw new Error("the relay stops");
      running = { worker: made, link };
      log.info("a side thread sends to the subscriptions that fail or are slow");
    } catch (error) {
      await made.terminate();
      lost("the side thread cannot start", why?.message ?? (error instanceof Error ? error.message : ""));
    }
  }

  function lost(message: string, error: string): void {
    running = undefined;
    notBefore = clock.monotonic() + PAUSE_MS;
    if (!over.signal.aborted) log.warn(message, { error });
  }

  /** Ends it after the requests under way, which would be made again elsewhere; when the relay stops, at once. */
  async function end(): Promise<void> {
    const ended = running;
    running = undefined;
    await within(clock, DRAIN_MS, Promise.allSettled(underWay), over.signal);
    await within(clock, STOP_MS, ended?.link.call("stop", [])).catch(() => false);
    await ended?.worker.terminate();
  }

  async function look(): Promise<void> {
    do {
      await clock.sleep(clock.now() + bounds.lookMs, over.signal);
      const many = asked >= bounds.many;
      asked = 0;
      quiet = many ? 0 : quiet + 1;
      if (running === undefined) {
        // Where the system has no thread to spare, it may have one later.
        if (many && clock.monotonic() >= notBefore)
          await start().catch((error: unknown) => lost("the side thread cannot start", String(error)));
      } else if (quiet >= bounds.quietLooks) await end();
      else await watch(running);
    } while (running !== undefined || quiet < bounds.quietLooks);
  }

  /** Ends a thread that gives no sign of life. */
  async function watch({ worker: watched, link }: Running): Promise<void> {
    const alive = await within(clock, ALIVE_MS, link.call("look", []), over.signal).catch(() => false);
    if (!alive && !over.signal.aborted) await watched.terminate();
  }

  function send({ link }: Running, transport: number, request: TransportRequest, signal: AbortSignal): Promise<Reply> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    const call = ++calls;
    const message: SideRequest = { transport, call, request: sendable(request) };
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        link.send("abort", call);
        reject(signal.reason as Error);
      };
      signal.addEventListener("abort", abort, { once: true });
      const sent = link.call<Reply>("send", [message]);
      underWay.add(sent);
      const settle = (): void => {
        signal.removeEventListener("abort", abort);
        underWay.delete(sent);
      };
      sent.then(resolve, reject).finally(settle);
    });
  }

  return {
    beside(transport, place) {
      // A plug-in may have returned anything; whether it is a transport is looked at next.
      if (transport?.separable !== true) return transport;
      places.push(place);
      return {
        ...transport,
        ...(transport.problems && { problems: (url) => transport.problems?.(url) }),
        ...(transport.readiness && { readiness: () => transport.readiness?.() }),
        send(request, signal) {
          if (request.troubled !== true) return transport.send(request, signal);
          asked++;
          looking ??= look()
            .catch(() => undefined)
            .finally(() => (looking = undefined));
          return running === undefined ? transport.send(request, signal) : send(running, place, request, signal);
        },
        forget(subscriptionId) {
          transport.forget?.(subscriptionId);
          running?.link.send("forget", place, subscriptionId);
        },
        dispose: () => transport.dispose(),
      };
    },
    async stop() {
      over.abort(new Error("stopping"));
      await looking;
      await end();
    },
  };
}
