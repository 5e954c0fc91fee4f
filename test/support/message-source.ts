/** A source over an upstream in memory: what becomes of its messages, as a connector learns it. */
import type { PluginContext } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { createIntake, type Intake } from "../../plugins/source/messages/intake.ts";
import { readingOf, type Fate, type MessageOptions, type RawMessage } from "../../plugins/source/messages/message.ts";
import { testClock, type TestClock } from "./clock.ts";
import { context } from "./context.ts";
import { quietLog, quietMetrics } from "./quiet.ts";

export interface MessageBench {
  readonly source: Source;
  readonly intake: Intake<RawMessage>;
  readonly clock: TestClock;
  readonly log: ReturnType<typeof quietLog>;
  readonly metrics: ReturnType<typeof quietMetrics>;
  /** What was settled, in order. */
  readonly settled: { readonly place: string; readonly fate: Fate }[];
  /** Offers payloads as messages `m-1`, `m-2`, … and resolves to what became of them. */
  send(...payloads: readonly (RawMessage["payload"] | Partial<RawMessage>)[]): Promise<readonly Fate[]>;
}

export function messageBench(
  options: MessageOptions = {},
  given: Partial<PluginContext> & {
    readonly maxInFlight?: number;
    /** Whether upstream keeps a bad message, which it offers again then. May throw: it was not told. */
    readonly keeps?: (place: string) => boolean;
  } = {},
): MessageBench {
  const [clock, log, metrics] = [testClock(), quietLog(), quietMetrics()];
  const settled: MessageBench["settled"][number][] = [];
  const waiting = new Map<string, (fate: Fate) => void>();
  const intake = createIntake<RawMessage>(context({ clock, log, metrics, ...given }), {
    reading: readingOf(options, "test"),
    maxInFlight: given.maxInFlight ?? 5_000,
    settle(list) {
      for (const { message, fate } of list) {
        settled.push({ place: message.place, fate });
        waiting.get(message.place)?.(fate);
      }
      return list.map(({ message }) => message).filter(({ place }) => given.keeps?.(place) === true);
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
