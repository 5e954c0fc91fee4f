/** A source over an upstream in memory: what becomes of its messages, as a connector learns it. */
import type { PluginContext } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { Intake } from "../../plugins/source/messages/intake.ts";
import type { MessageOptions, Poison, RawMessage } from "../../plugins/source/messages/message.ts";
import { testClock, type TestClock } from "./clock.ts";
import { context } from "./context.ts";
import { quietLog, quietMetrics } from "./quiet.ts";

export type Fate = { readonly kind: "stored" | "returned" } | ({ readonly kind: "poison" } & Poison);

export interface MessageBench {
  readonly source: Source;
  readonly intake: Intake<RawMessage>;
  readonly clock: TestClock;
  readonly log: ReturnType<typeof quietLog>;
  readonly metrics: ReturnType<typeof quietMetrics>;
  /** Messages that were settled, in order. */
  readonly settled: { readonly place: string; readonly fate: Fate }[];
  /** Offers payloads as messages `m-1`, `m-2`, … and resolves to what became of them. */
  send(...payloads: readonly (RawMessage["payload"] | Partial<RawMessage>)[]): Promise<readonly Fate[]>;
}

export function messageBench(
  options: MessageOptions = {},
  given: Partial<PluginContext> & {
    readonly maxInFlight?: number;
    /** Returns true when upstream keeps a bad message, which it offers again then. May throw: it was not told. */
    readonly keeps?: (place: string) => boolean;
  } = {},
): MessageBench {
  const [clock, log, metrics] = [testClock(), quietLog(), quietMetrics()];
  const settled: MessageBench["settled"][number][] = [];
  const waiting = new Map<string, (fate: Fate) => void>();
  const settle = (fate: Fate, ...messages: readonly RawMessage[]): void => {
    for (const { place } of messages) {
      settled.push({ place, fate });
      waiting.get(place)?.(fate);
    }
  };
  const intake = new Intake<RawMessage>(context({ clock, log, metrics, ...given }), {
    reading: { ...options, source: options.name ?? "test" },
    maxInFlight: given.maxInFlight ?? 5_000,
    upstream: {
      stored: (messages) => settle({ kind: "stored" }, ...messages),
      giveBack: (messages) => settle({ kind: "returned" }, ...messages),
      setAside(message, poison) {
        settle({ kind: "poison", ...poison }, message);
        return given.keeps?.(message.place) !== true;
      },
    },
  });
  let count = 0;
  return {
    source: { start: (accept) => intake.start(accept), stop: () => intake.stop() },
    intake,
    clock,
    log,
    metrics,
    settled,
    send(...payloads) {
      const messages = payloads.map((one): RawMessage => {
        const base = { payload: "", subject: "test", place: `m-${++count}` };
        return typeof one === "string" || one instanceof Uint8Array ? { ...base, payload: one } : { ...base, ...one };
      });
      const fates = messages.map(({ place }) => new Promise<Fate>((resolve) => void waiting.set(place, resolve)));
      intake.offer(messages);
      return Promise.all(fates);
    },
  };
}
