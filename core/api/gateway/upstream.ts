/** Sends requests to the upstream over kept connections, with one deadline for each whole exchange. */
import type { Pool } from "undici";
import { openedLate } from "../../lib/opened-late.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Connect } from "../../ports/plugin.ts";
import { withoutInformational } from "./informational.ts";
import { UpstreamExchange, type UpstreamHead, type UpstreamRequest } from "./exchange.ts";

export interface UpstreamOptions {
  /** `http:` or `https:`; its path goes before that of each request. */
  readonly url: URL;
  /** The guarded connector. It opens this upstream only. */
  readonly connect: Connect;
  readonly clock: Clock;
  /** From the first byte sent to the last one passed on. @default 30_000 */
  readonly deadlineMs?: number;
  /** Requests under way at once. @default 128 */
  readonly concurrency?: number;
}

export interface Answering {
  readonly head: UpstreamHead;
  readonly exchange: UpstreamExchange;
}

export interface Upstream {
  /**
   * Sends a request; resolves when the answer's head is there.
   * @param ended called once, when nothing of the request is left at the upstream
   * @throws whatever `signal` was aborted with or the connection failed with
   */
  send(request: UpstreamRequest, signal: AbortSignal, ended: () => void): Promise<Answering>;
  dispose(): Promise<void>;
}

const CONNECT_MS = 10_000;
/** undici's time-outs bound single waits. The deadline is ours; these are for a clock that was set back. */
const BELT_MS = 120_000;

export function createUpstream({
  url,
  connect,
  clock,
  deadlineMs = 30_000,
  concurrency = 128,
}: UpstreamOptions): Upstream {
  const prefix = url.pathname.replace(/\/+$/, "");
  const end = new AbortController();

  // undici is loaded at the first request.
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
          (socket) => done(null, withoutInformational(socket)),
          (error: Error) => done(error, null),
        );
      },
    });
  }

  const pooled = openedLate(open, (pool) => pool.destroy());

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
    const pool = await pooled.use();
    await within(deadlineMs, async (deadline) => {
      for (let again = mayRepeat(request); ; again = false) {
        const one = new UpstreamExchange(pool, request);
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
    async send(request, signal, ended) {
      const told = Promise.withResolvers<Answering>();
      exchange({ ...request, path: prefix + request.path }, signal, told).then(ended, (error: Error) => {
        ended();
        told.reject(error);
      });
      return await told.promise;
    },
    async dispose() {
      end.abort(new Error("the gateway is closed"));
      await pooled.close();
    },
  };
}

type Told = PromiseWithResolvers<Answering>;

/** RFC 9110 §9.2.2: what changes nothing may be sent again. */
const mayRepeat = ({ method, body }: UpstreamRequest): boolean =>
  body === undefined && (method === "GET" || method === "HEAD");

/** True when the other side closed a kept connection just as it was used. */
const isStale = (error: unknown): boolean =>
  ["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"].includes((error as NodeJS.ErrnoException).code ?? "");
