// Sessions of a message source with its upstream, one after another.
import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { unlessAborted } from "../../core/lib/within.ts";
import { connectedSource, watchBacklog } from "../../plugins/source/messages/connected.ts";
import { Intake, type Backlog } from "../../plugins/source/messages/intake.ts";
import { keepConnected } from "../../plugins/brokers/keep-connected.ts";
import { testClock } from "../support/clock.ts";
import { context } from "../support/context.ts";
import { desk, paid } from "../support/intake.ts";
import { until } from "../support/until.ts";

it("leaves nothing on the source's signal, however often upstream was away", async () => {
  const stopping = new AbortController();
  const clock = testClock();
  let sessions = 0;
  const kept = keepConnected({ stopping: stopping.signal, away: () => {} }, clock, async (signal) => {
    sessions++;
    void unlessAborted(signal, never);
    throw new Error("away");
  });
  await until(async () => {
    await clock.advance(10_000);
    return sessions >= 50;
  });
  // One for the session or the wait that is under way.
  expect(getEventListeners(stopping.signal, "abort").length).toBeLessThanOrEqual(1);
  stopping.abort();
  await kept;
});

it.each([
  ["fails as soon as it is connected is begun less and less often", 0, 12_700],
  ["has worked for a while is followed by the next at once", 5_000, 7 * 5_100],
])("a session that %s", async (_, worksMs, tookMs) => {
  const stopping = new AbortController();
  const clock = testClock();
  const began: number[] = [];
  const kept = keepConnected({ stopping: stopping.signal, away: () => {} }, clock, async (signal, connected) => {
    began.push(clock.monotonic());
    connected();
    if (worksMs > 0) await clock.sleep(clock.now() + worksMs, signal);
    throw new Error("refused");
  });
  await until(async () => {
    await clock.advance(100);
    return began.length === 8;
  });
  expect((began[7] as number) - (began[0] as number)).toBeCloseTo(tookMs, -2);
  stopping.abort();
  await kept;
});

it("tells the session that the source stops, with its reason", async () => {
  const stopping = new AbortController();
  let reason: unknown;
  const kept = keepConnected({ stopping: stopping.signal, away: () => {} }, testClock(), async (signal) => {
    await unlessAborted(signal, never);
    reason = signal.reason;
  });
  stopping.abort("enough");
  await kept;
  expect(reason).toBe("enough");
});

const never = new Promise<never>(() => {});
const reading = { source: "orders" };
const upstream = (stored: () => unknown) => ({ stored, setAside: stored });
const message = (payload: string) => ({ payload, place: "orders-1", subject: "orders", at: 0 });

it("stops in time when upstream does not say that it was told", async () => {
  const clock = testClock();
  const intake = new Intake(context({ clock }), { reading, maxInFlight: 10, upstream: upstream(() => never) });
  const { intake: store, told } = desk();
  intake.start(store.accept);
  intake.offer([message(JSON.stringify(paid()))]);
  await until(() => told.length === 1);
  const stopped = intake.stop();
  await clock.whenSleeping();
  await clock.advance(5_000);
  await stopped;
});

it("stops in time when its session does not end", async () => {
  const clock = testClock();
  const intake = new Intake(context({ clock }), { reading, maxInFlight: 10, upstream: upstream(() => undefined) });
  const source = connectedSource(intake, clock, () => never);
  await source.start(desk().intake.accept, { durability: "fsync" });
  const stopped = source.stop();
  await clock.whenSleeping();
  await clock.advance(8_000);
  await stopped;
});

it("does not wait for a reading of the backlog that nobody answers, and leaves nothing on the session's signal", async () => {
  const over = new AbortController();
  const clock = testClock();
  let readings = 0;
  const read = (): Promise<Backlog> => (++readings < 50 ? Promise.resolve({ count: 3 }) : never);
  const watching = watchBacklog(clock, { backlog: () => undefined }, over.signal, read);
  await until(async () => {
    await clock.advance(15_000);
    return readings === 50;
  });
  expect(getEventListeners(over.signal, "abort").length).toBeLessThanOrEqual(2);
  over.abort();
  await watching;
});
