/** The package of an observer: it counts deliveries that have failed for good, by event type. */
export const OBSERVER = {
  about: "It counts deliveries that have failed for good, by event type, in a metric of its own.",
  use: `
import { defineRelay } from "relaybox";
import { FACTORY } from "NAME";

export default defineRelay({ observers: [FACTORY({ types: ["deposit:paid"] })] });
`,
  source: `
/** Counts deliveries that have failed for good, by event type. */
import type { Observer, Plugin, RelayEvent } from "relaybox";
import { z } from "zod";

export interface Options {
  /** The event types that have a series of their own; all others are \`other\`. @default none */
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

export function FACTORY(options: Options = {}): Plugin<"observer", Observer> {
  return {
    kind: "observer",
    name: "NAME",
    problems: problemsOf(options),
    metrics: [
      { name: "relay_observer_failed_total", type: "counter", help: "Deliveries failed, by type", labels: ["type"], series: 60 },
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
          if (status === "failed") metrics.count("relay_observer_failed_total", { type: types.get(eventId) ?? "other" });
        },
      };
    },
  };
}
`,
  test: `
import { describe, expect, it } from "vitest";
import { testContext } from "relaybox/conformance";
import { FACTORY } from "../src/index.ts";

describe("NAME", () => {
  it("counts what has failed for good, by type", async () => {
    const plugin = FACTORY({ types: ["deposit:paid"] });
    await using ctx = await testContext(plugin);
    const observer = await plugin.setup(ctx);
    for (const [id, type] of [["evt_1", "deposit:paid"], ["evt_2", "deal:won"]]) {
      observer.accepted?.({ id, type } as never);
      for (const status of ["pending", "failed"]) {
        observer.attempted?.({} as never, { eventId: id, status } as never, {} as never, { kind: "exhausted" });
      }
    }
    expect(Object.fromEntries(ctx.figures)).toEqual({
      'relay_observer_failed_total{type="deposit:paid"}': 1,
      'relay_observer_failed_total{type="other"}': 1,
    });
  });

  it("names what is wrong with its options", () => {
    expect(FACTORY({ types: [""] }).problems?.map(({ path }) => path)).toEqual(["types.0"]);
  });
});
`,
} as const;
