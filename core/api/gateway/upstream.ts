/** The upstream: kept connections, a line that refuses when it is full, one deadline over the whole of each exchange. */
import Bottleneck from "bottleneck";
import type { Pool } from "undici";
import { Problem } from "../../model/problem.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Connect } from "../../ports/plugin.ts";
import { Exchange } from "./exchange.ts";
import type { UpstreamHead, UpstreamRequest } from "./exchange.ts";

export interface UpstreamOptions {
  /** `http:` or `https:`; its path goes before that of each request. */
  readonly url: URL;
  /** Guarded: it opens this upstream and nothing else. */
  readonly connect: Connect;
  readonly clock: Clock;
  /** From the first byte sent to the last one passed on. @default 30_000 */
  readonly deadlineMs?: number;
  /** Requests under way at once. @default 128 */
  readonly concurrency?: number;
}

export interface Answering {
  readonly head: UpstreamHead;
  readonly exchange: Exchange;
}

export interface Upstream {
  /**
   * Sends a request; resolves when the answer's head is there.
   * @throws Problem PROVIDER_BACKPRESSURE when the line is full, else whatever `signal` was aborted with or the
   * connection failed with
   */
  send(request: UpstreamRequest, signal: AbortSignal): Promise<Answering>;
  dispose(): Promise<void>;
}

const CONNECT_MS = 10_000;
/** A bottleneck passes 450 jobs a second (measured), for it yields to timers: so the line is made of several. */
const LANES = 16;
/** undici's own time-outs look at single waits: the deadline is ours, these are for a clock that was set back. */
const BELT_MS = 120_000;

interface Lane {
  readonly limiter: Bottleneck;
  busy: number;
}

export function createUpstream({
  url,
  connect,
  clock,
  deadlineMs = 30_000,
  concurrency = 128,
}: UpstreamOptions): Upstream {
  const prefix = url.pathname.replace(/\/+$/, "");
  const end = new AbortController();
  const count = Math.min(LANES, concurrency);
  const lanes = Array.from({ length: count }, (_, i): Lane => {
    const maxConcurrent = Math.floor(concurrency / count) + (i < concurrency % count ? 1 : 0);
    const limiter = new Bottleneck({ maxConcurrent, highWater: 0, strategy: Bottleneck.strategy.OVERFLOW });
    return { limiter, busy: 0 };
  });
  let opened: Promise<Pool> | undefined;

  // Loaded at the first request.
  async function open(): Promise<Pool> {
    const undici = await import("undici");
    return new undici.Pool(url.origin, {
      connections: concurrency,
      pipelining: 1,
      allowH2: false,
      headersTimeout: BELT_MS,
      bodyTimeout: BELT_MS,
      connect: (_options, done) => {
        dial().then(
          (socket) => done(null, socket),
          (error: Error) => done(error, null),
        );
      },
    });
  }

  async function dial(): ReturnType<Connect> {
    const tls = url.protocol === "https:";
    const hostname = url.hostname.replace(/\.$/, "");
    const port = url.port === "" ? (tls ? 443 : 80) : Number(url.port);
    return await within(CONNECT_MS, (signal) => connect({ hostname, port, tls }, signal));
  }

  /** Runs something that a signal ends after `ms`, or when all ends. */
  async function within<T>(ms: number, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const own = new AbortController();
    const late = clock.sleep(clock.now() + ms, own.signal).then(
      () => own.abort(new Error(`the upstream took longer than ${ms} ms`)),
      () => undefined,
    );
    const ended = (): void => own.abort(end.signal.reason);
    end.signal.addEventListener("abort", ended, { once: true });
    try {
      return await run(own.signal);
    } finally {
      end.signal.removeEventListener("abort", ended);
      own.abort();
      await late;
    }
  }

  /** Resolves when nothing of the request is left anywhere. `told` may be called more than once: the first counts. */
  async function exchange(request: UpstreamRequest, signal: AbortSignal, told: Told): Promise<void> {
    const pool = await (opened ??= open());
    await within(deadlineMs, async (deadline) => {
      for (let again = mayRepeat(request); ; again = false) {
        const one = new Exchange(pool, request);
        const abort = (): void => one.abort((signal.aborted ? signal : deadline).reason as Error);
        signal.addEventListener("abort", abort, { once: true });
        deadline.addEventListener("abort", abort, { once: true });
        if (signal.aborted || deadline.aborted) abort();
        try {
          told.resolve({ head: await one.head, exchange: one });
        } catch (error) {
          if (again && !signal.aborted && !deadline.aborted && isStale(error)) continue;
          told.reject(error as Error);
        } finally {
          await one.over;
          signal.removeEventListener("abort", abort);
          deadline.removeEventListener("abort", abort);
        }
        return;
      }
    });
  }

  return {
    async send(request, signal) {
      const told = Promise.withResolvers<Answering>();
      const lane = lanes.reduce((best, one) => (one.busy < best.busy ? one : best));
      lane.busy++;
      lane.limiter
        .schedule(() => exchange({ ...request, path: prefix + request.path }, signal, told))
        .catch((error: Error) => told.reject(error instanceof Bottleneck.BottleneckError ? lineFull() : error))
        .finally(() => lane.busy--)
        .catch(() => undefined);
      return await told.promise;
    },
    async dispose() {
      end.abort(new Error("the gateway is closed"));
      await Promise.all(lanes.map(({ limiter }) => limiter.disconnect()));
      await (await opened)?.destroy();
    },
  };
}

type Told = PromiseWithResolvers<Answering>;

const lineFull = (): Problem =>
  new Problem("PROVIDER_BACKPRESSURE", "The upstream has as many requests as it may have; come back later.", {
    retryAfter: 1,
  });

/** RFC 9110 §9.2.2: what changes nothing may be sent again. */
const mayRepeat = ({ method, body }: UpstreamRequest): boolean =>
  body === undefined && (method === "GET" || method === "HEAD");

/** A kept connection was closed by the other side just when it was used. */
const isStale = (error: unknown): boolean =>
  ["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"].includes((error as NodeJS.ErrnoException).code ?? "");
