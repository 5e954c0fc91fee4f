/** What a node remembers of receivers and deliveries is bounded: the oldest is forgotten, and the newest are known. */
import { expect, it } from "vitest";
import { createUpstreamRest } from "../../core/api/gateway/gateway.ts";
import { Away } from "../../core/deliver/away.ts";
import { createGates } from "../../core/deliver/gates.ts";
import { noteFault } from "../../core/deliver/own-faults.ts";
import { testClock } from "../support/clock.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

/** More than anything here remembers. */
const MANY = 20_000;
const ids = Array.from({ length: MANY }, (_, n) => `sub_${n}`);

interface Memory {
  readonly note: (id: string) => unknown;
  readonly knows: (id: string) => boolean;
  readonly end?: () => Promise<void>;
}

const memories: Readonly<Record<string, () => Memory>> = {
  "of Retry-After": () => {
    const gates = createGates(testClock());
    return {
      note: (id) => gates.pause(id, "retry_after", 60_000),
      knows: (id) => gates.leftMs(id, "retry_after") > 0,
    };
  },
  "of connections that are away": () => {
    const transport = { schemes: ["nats"], readiness: () => "no connection" };
    const clock = testClock();
    const gates = createGates(clock);
    const away = new Away({
      transportOf: () => transport as never,
      gates,
      queue: { pause: async () => {} },
      clock,
      log: quietLog(),
      metrics: quietMetrics(),
    });
    return {
      note: (id) => away.note({ id, url: "nats://bus/a" }, "no connection"),
      knows: (id) => gates.leftMs(id, "away") > 0,
      end: () => away.stop(),
    };
  },
  "of our own faults": () => {
    const faults = new Map<string, number>();
    const note = (subscriptionId: string): boolean => noteFault(faults, { subscriptionId, ordinal: "0" });
    return { note: (id) => [1, 2, 3, 4].some(() => note(id)), knows: note };
  },
  "of rows and keys for which an upstream asked for rest": () => {
    const rest = createUpstreamRest(testClock());
    return { note: (key) => rest.row("GET /v1/qr", key, 60_000), knows: (key) => rest.leftMs("GET /v1/qr", key) > 0 };
  },
};

it("the pause of an open circuit breaker is not forgotten for pauses of other kinds", () => {
  const gates = createGates(testClock());
  gates.pause("broken", "failing", 60_000);
  for (const id of ids) gates.pause(id, "retry_after", 60_000);
  expect(gates.leftMs("broken", "failing")).toBe(60_000);
});

it.each(Object.entries(memories))("the memory %s", async (_, made) => {
  const { note, knows, end } = made();
  for (const id of ids) note(id);
  expect(knows(ids.at(-1) as string)).toBe(true);
  expect(knows(ids[MANY - 5_000] as string)).toBe(true);
  expect(knows(ids[0] as string)).toBe(false);
  await end?.();
});
