// Keeps which fault befell the relay, and when: by this an oracle tells a promise that was broken from one that a fault excuses.

/** A stretch of time, ms of `performance.now()`. */
export interface Span {
  readonly name: string;
  readonly from: number;
  /** When all was as before. */
  to: number;
}

export interface Timeline {
  readonly spans: readonly Span[];
  /** How often each fault came. */
  counts(): Readonly<Record<string, number>>;
  /** Runs a fault and notes when it began and when all was as before. */
  during<T>(name: string, work: () => Promise<T>): Promise<T>;
  /** Spans that overlap the stretch, of these names or of any. */
  within(from: number, to: number, names?: ReadonlySet<string>): readonly Span[];
  /** How long the stretch was disturbed, ms. */
  disturbedMs(from: number, to: number): number;
  /** How many times longer than asked this process waited for its own ticks in the stretch: about 1 on a quiet machine. */
  slowness(from: number, to: number): number;
  end(): void;
}

/** The name under which a stall of this process itself is noted: its clock readings are late then. */
export const STALL = "stall of the observer";
const TICK_MS = 50;
const STALLED_MS = 300;
/** A request that is read from a socket may have been sent so much earlier. */
const LAG_MS = 1_000;

/** Watches its own event loop, too: a busy machine must not look like a late relay. */
export function openTimeline(): Timeline {
  const spans: Span[] = [];
  const ticks: number[] = [];
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    if (now - last > TICK_MS + STALLED_MS) spans.push({ name: STALL, from: last, to: now });
    ticks.push(now);
    last = now;
  }, TICK_MS).unref();

  const within: Timeline["within"] = (from, to, names) =>
    spans.filter(
      (span) => span.from <= to && span.to + LAG_MS >= from && (names === undefined || names.has(span.name)),
    );

  return {
    spans,
    within,
    counts() {
      const counts: Record<string, number> = {};
      for (const { name } of spans) if (name !== STALL) counts[name] = (counts[name] ?? 0) + 1;
      return counts;
    },
    async during(name, work) {
      const span: Span = { name, from: performance.now(), to: Number.POSITIVE_INFINITY };
      spans.push(span);
      try {
        return await work();
      } finally {
        span.to = performance.now();
      }
    },
    disturbedMs: (from, to) =>
      within(from, to).reduce((sum, span) => sum + Math.max(0, Math.min(span.to, to) - Math.max(span.from, from)), 0),
    slowness(from, to) {
      const came = ticks.filter((at) => at >= from && at <= to).length;
      return Math.max(1, (to - from) / TICK_MS / Math.max(1, came));
    },
    end: () => clearInterval(timer),
  };
}
