/** What a node remembers of receivers and deliveries is bounded: the oldest is forgotten, and the newest are known. */
import { expect, it } from "vitest";
import { createUpstreamRest } from "../../core/api/gateway/rest.ts";
import { createAway } from "../../core/deliver/away.ts";
import { createOwnFaults } from "../../core/deliver/own-faults.ts";
import { createRetryAfter } from "../../core/deliver/retry-after.ts";
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
    const pauses = createRetryAfter(testClock());
    return { note: (id) => pauses.note(id, 60_000), knows: (id) => pauses.leftMs(id) > 0 };
  },
  "of connections that are away": () => {
    const transport = { schemes: ["nats"], readiness: () => "no connection" };
    const away = createAway({
      transportOf: () => transport as never,
      queue: { pause: async () => {} },
      clock: testClock(),
      log: quietLog(),
      metrics: quietMetrics(),
    });
    return {
      note: (id) => away.note({ id, url: "nats://bus/a" }, "no connection"),
      knows: (id) => away.admit({ id }) !== undefined,
      end: () => away.stop(),
    };
  },
  "of our own faults": () => {
    const faults = createOwnFaults();
    const four = (id: string): boolean => [1, 2, 3, 4].some(() => faults.note(id, "0"));
    return { note: four, knows: (id) => faults.note(id, "0") };
  },
  "of rows and keys for which an upstream asked for rest": () => {
    const rest = createUpstreamRest(testClock());
    return { note: (key) => rest.row("GET /v1/qr", key, 60_000), knows: (key) => rest.leftMs("GET /v1/qr", key) > 0 };
  },
};

it.each(Object.entries(memories))("the memory %s", async (_, made) => {
  const { note, knows, end } = made();
  for (const id of ids) note(id);
  expect(knows(ids.at(-1) as string)).toBe(true);
  expect(knows(ids[MANY - 5_000] as string)).toBe(true);
  expect(knows(ids[0] as string)).toBe(false);
  await end?.();
});
