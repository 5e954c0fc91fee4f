/** Counts deliveries that have failed for good, by event type. */
import type { Observer, Plugin, RelayEvent } from "relaybox";
import { z } from "zod";

export interface Options {
  /** The event types that have a series of their own; all others are `other`. @default none */
  readonly types?: readonly string[];
}

const schema = z.strictObject({ types: z.array(z.string().min(1)).max(50).optional() });

/** Every problem of the options, with its path. */
function problemsOf(options: unknown): { path: string; message: string }[] {
  const { error } = schema.safeParse(options);
  return (error?.issues ?? []).map(({ path, message }) => ({ path: path.join("."), message }));
}

/** How many events are remembered between their acceptance and the end of their deliveries. */
const REMEMBERED = 10_000;

export function myObserver(options: Options = {}): Plugin<"observer", Observer> {
  return {
    kind: "observer",
    name: "my-observer",
    problems: problemsOf(options),
    metrics: [
      {
        name: "relay_observer_failed_total",
        type: "counter",
        help: "Deliveries failed, by type",
        labels: ["type"],
        series: 60,
      },
    ],
    setup({ metrics }) {
      const known = new Set(options.types);
      const types = new Map<string, string>();
      return {
        // These calls stand on the path of each event: they return at once.
        accepted({ id, type }: RelayEvent) {
          types.set(id, known.has(type) ? type : "other");
          if (types.size > REMEMBERED) types.delete(types.keys().next().value as string);
        },
        attempted(_sub, { eventId, status }) {
          if (status === "failed")
            metrics.count("relay_observer_failed_total", { type: types.get(eventId) ?? "other" });
        },
      };
    },
  };
}
