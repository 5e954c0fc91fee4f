// The gauges of /metrics beside a storage that hangs: the text comes all the same, and tells what is known by then.
import { tmpdir } from "node:os";
import { expect, it } from "vitest";
import type { HealthPart } from "../../core/api/resources/health.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { refreshGauges, type GaugeDeps } from "../../core/runtime/compose/metrics.ts";
import { createMetrics } from "../../core/runtime/observability/index.ts";
import { testClock } from "../support/clock.ts";

const never = <T>(): Promise<T> => new Promise<T>(() => undefined);

it("come within 2 s from a storage that hangs, with their last values, and with what it says later", async () => {
  const [clock, metrics] = [testClock(), createMetrics()];
  let hangs = false;
  const late = Promise.withResolvers<Readonly<Record<string, HealthPart>>>();
  const answer = <T>(value: T) => (hangs ? never<T>() : Promise.resolve(value));
  const storage = {
    queue: { depth: () => answer({ waiting: 7, leased: 0 }) },
    range: () => answer([]),
    status: () => answer({ bytes: 9 }),
  } as unknown as Storage;
  let leases = 1;
  const path = {
    plan: { dataDir: tmpdir() },
    clock,
    storage,
    dispatcher: { underWay: () => leases },
    gates: { count: () => 0 },
  } as unknown as GaugeDeps["path"];
  const readiness = () => (hangs ? late.promise : Promise.resolve({ storage: { ready: true } }));
  refreshGauges({ metrics, path, readiness, dropped: () => 0 });
  const shown = (text: string) =>
    ["leases", "backlog", "ready", "storage_bytes"].map(
      (name) => new RegExp(`^relay_${name} (\\d+)$`, "m").exec(text)?.[1],
    );
  expect(shown(await metrics.text())).toEqual(["1", "7", "1", "9"]);

  hangs = true;
  leases = 2;
  const [first] = await Promise.all([metrics.text(), clock.advance(2_000)]);
  expect(shown(first)).toEqual(["2", "7", "1", "9"]);

  late.resolve({ storage: { ready: false } });
  const [next] = await Promise.all([metrics.text(), clock.advance(2_000)]);
  expect(shown(next)).toEqual(["2", "7", "0", "9"]);
  metrics.dispose();
});
