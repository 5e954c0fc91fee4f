// A node that messages about subscriptions do not reach: it accepts nothing by what it remembers.
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { createSubscriptionCache } from "../../core/records/subscription-cache.ts";
import { createPublisher, type Publisher } from "../../core/publish/accept.ts";
import { ConflictError } from "../../core/model/errors.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { paid, publish, subscription } from "../support/intake.ts";
import { pacedClock } from "../support/paced-clock.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { tcpShim, type TcpShim } from "../support/tcp-shim.ts";
import { until } from "../support/until.ts";
import { describeRedis, eachBench, sharedRedis } from "../support/redis-bench.ts";

const clock = systemClock();
const FIRST = subscription("01h00000000000000000000001");
const SECOND = subscription("01h00000000000000000000002");
const stored = (sub: Subscription): Change => ({
  op: "put",
  key: SUBSCRIPTION.key(sub),
  value: JSON.stringify(sub),
});
/** A node by this clock gives no sign of life, each second, from which it would learn what it has missed. */
const silent = (): Clock => pacedClock((ms) => (ms > 900 && ms <= 1_000 ? ms * 10_000 : ms));
const isNew = (ordinal: number): Change => ({ op: "put", key: `event:key_1:${ordinal}`, value: "{}", if: null });

describeRedis("a node that has missed messages", {}, () => {
  const server = sharedRedis();
  const bench = eachBench();
  let shim: TcpShim;
  let relays = 0;
  /** Hears all. */
  let near: Storage;
  /** Hears nothing once the line is hushed. */
  let deaf: Storage;
  beforeAll(async () => {
    shim = await tcpShim(server().port);
  });
  afterAll(async () => {
    await shim?.[Symbol.asyncDispose]();
  });
  afterEach(() => shim.pass());

  const open = (url: string, prefix: string, own = clock): Promise<Storage> =>
    bench().open({ url, prefix }, { clock: own });
  /** @param own the clock of the one that will hear nothing */
  async function both(own?: Clock): Promise<void> {
    const prefix = `stale${++relays}`;
    near = await open(server().url, prefix);
    deaf = await open(`redis://127.0.0.1:${shim.port}`, prefix, own);
  }
  function intakeOn(storage: Storage): Publisher {
    const directory = createSubscriptionCache(storage);
    bench().keep({ [Symbol.asyncDispose]: async () => directory[Symbol.dispose]() });
    return createPublisher({
      storage,
      handOver: { offer: (_, dues) => storage.queue.add(dues) },
      subscriptionCache: directory,
      clock,
      maxPending: 0,
      log: quietLog(),
      metrics: quietMetrics(),
    });
  }
  const deliveries = async (intake: Publisher): Promise<number | undefined> =>
    (await intake.accept(publish([paid()])))[0]?.deliveries;

  it("refuses events while Redis has lost all records, and goes on once there are some", async () => {
    await both();
    const intake = intakeOn(near);
    await near.commit([stored(FIRST)]);
    expect(await deliveries(intake)).toBe(1);
    await server().command("FLUSHALL");
    await expect(deliveries(intake)).rejects.toMatchObject({ code: "STORAGE_UNAVAILABLE" });
    await expect(near.status()).rejects.toMatchObject({ fault: "unavailable" });
    await expect(deliveries(intake)).rejects.toMatchObject({ code: "STORAGE_UNAVAILABLE" });
    await near.commit([stored(FIRST), stored(SECOND)]);
    await until(async () => (await deliveries(intake).catch(() => 0)) === 2);
    await expect(near.status()).resolves.toMatchObject({ name: "redis" });
  });

  it("begins with none where it is started on a Redis that has lost all records", async () => {
    await both();
    await near.commit([stored(FIRST)]);
    await server().command("FLUSHALL");
    const fresh = await open(server().url, `stale${relays}`);
    expect(await deliveries(intakeOn(fresh))).toBe(0);
    await expect(deliveries(intakeOn(near))).rejects.toMatchObject({ code: "STORAGE_UNAVAILABLE" });
  });

  it("fans out by the subscriptions that there are, made or deleted by others", async () => {
    await both();
    await near.commit([stored(FIRST)]);
    const intake = intakeOn(deaf);
    expect(await deliveries(intake)).toBe(1);
    shim.hush();
    await near.commit([stored(SECOND)]);
    expect(await deliveries(intake)).toBe(2);
    await near.commit([stored({ ...FIRST, deletedAt: clock.now() })]);
    expect(await deliveries(intake)).toBe(1);
    await near.commit([stored({ ...SECOND, deletedAt: clock.now() })]);
    expect(await deliveries(intake)).toBe(0);
  });

  it("is refused new events until it knows that it has missed something, and nothing else", async () => {
    await both(silent());
    shim.hush();
    await near.commit([stored(FIRST)]);
    const told: string[] = [];
    deaf.watch((keys) => void told.push(...keys));
    await deaf.commit([{ op: "put", key: "meta:a", value: "x" }]);
    await deaf.commit([{ op: "put", key: "event:key_1:0", value: "{}" }]);
    expect(told).toEqual([]);
    await expect(deaf.commit([isNew(1)])).rejects.toBeInstanceOf(ConflictError);
    expect(told).toContain("subscription:");
    expect(await near.getItem("event:key_1:1")).toBeUndefined();
    await deaf.commit([isNew(1)]);
    expect(await near.getItem("event:key_1:1")).toBe("{}");
  });

  it("is refused what it decided before a change, though it tries again after it heard of that", async () => {
    await both();
    const changes = [isNew(1)];
    shim.swallow();
    await expect(deaf.commit(changes)).rejects.toMatchObject({ fault: "uncertain" });
    await near.commit([stored(FIRST)]);
    const heard = new Promise<void>((resolve) => deaf.watch(() => resolve()));
    shim.cut();
    shim.pass();
    await heard;
    // Until the new connection is there, nothing is known of it.
    let end: unknown;
    do end = await deaf.commit(changes).catch((error: unknown) => error);
    while ((end as { fault?: string } | undefined)?.fault !== undefined);
    expect(end).toBeInstanceOf(ConflictError);
    expect(await near.getItem("event:key_1:1")).toBeUndefined();
  });

  it("is refused when a restored Redis counts anew, and goes on by what is there now", async () => {
    await both();
    await near.commit([stored(FIRST)]);
    const intake = intakeOn(deaf);
    expect(await deliveries(intake)).toBe(1);
    shim.hush();
    await server().command("FLUSHALL");
    await near.commit([stored(FIRST), stored(SECOND)]);
    expect(await deliveries(intake)).toBe(2);
  });

  it("is refused after more changes of other keys than are remembered, and these take no more room", async () => {
    await both(silent());
    shim.hush();
    await near.commit([stored(FIRST)]);
    const many = Array.from({ length: 1_100 }, (_, i) => stored({ ...SECOND, keyId: `key_${i + 2}` }));
    await Promise.all(many.map((change) => near.commit([change])));
    await expect(deaf.commit([isNew(1)])).rejects.toBeInstanceOf(ConflictError);
    await deaf.commit([isNew(1)]);
    const kept = await server().command("ZCARD", `{stale${relays}}:moved`);
    expect(kept).toMatch(/^:?1000\b/);
    expect(await server().command("HLEN", `{stale${relays}}:epochs`)).toMatch(/^:?1000\b/);
  });

  it("keeps publishing while others change subscriptions of other keys all the time", async () => {
    await both();
    await near.commit([stored(FIRST)]);
    const intakes = [intakeOn(near), intakeOn(deaf)];
    shim.hush();
    let changing = true;
    let changes = 0;
    const change = (async () => {
      for (; changing; changes++) await near.commit([stored({ ...SECOND, keyId: "key_2", description: `${changes}` })]);
    })();
    for (let i = 0; i < 100; i++) for (const intake of intakes) expect(await deliveries(intake)).toBe(1);
    changing = false;
    await change;
    expect(changes).toBeGreaterThan(50);
  });
});
