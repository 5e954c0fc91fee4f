// An observer of a plug-in's: what it hears of, what it may pass on, and that it cannot stop the relay.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Observer } from "../../core/ports/observer.ts";
import type { ObserverPlugin } from "../../core/ports/plan.ts";
import { acceptedBy, attemptedBy, refusedBy, wrapped } from "../../core/runtime/compose/observers.ts";
import { Incidents } from "../../core/runtime/plugin/incidents.ts";
import { createWalls } from "../../core/runtime/plugin/wall.ts";
import { walledObserver } from "../../core/runtime/plugin/walled.ts";
import { testClock } from "../support/clock.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { replied, testPath } from "../support/path.ts";
import { throwing } from "../support/plugins.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";

/** Writes down what it hears. */
function diary(more: Observer = {}): { readonly heard: string[]; readonly observer: Observer } {
  const heard: string[] = [];
  return {
    heard,
    observer: {
      accepted: ({ type }) => void heard.push(`accepted ${type}`),
      attempted: (_sub, { status }, { number, statusCode }, { kind }) =>
        void heard.push(`attempt ${number}: ${statusCode}, ${kind}, ${status}`),
      refused: (code) => void heard.push(`refused ${code}`),
      ...more,
    },
  };
}

const plugin = (name: string, observer: Observer): ObserverPlugin => ({
  kind: "observer",
  name,
  setup: () => observer,
});

describe("an observer", () => {
  it("hears of each event once it is stored, and of each attempt with its outcome", async () => {
    const { heard, observer } = diary();
    await using test = await testPath({ observers: [observer] });
    test.answers = [replied(500)];
    await test.subscribe();
    await test.start();
    await test.publish();
    expect(heard).toEqual(["accepted deposit:paid"]);
    await test.whenSent(1);
    await test.clock.advance(5_500);
    await test.whenSent(2);
    await test.clock.advance(0);
    expect(heard.slice(1)).toEqual(["attempt 1: 500, retry, pending", "attempt 2: 200, delivered, delivered"]);
  });

  it("that throws is named, and neither the relay nor the next observer misses anything", async () => {
    const fails = throwing();
    const [clock, metrics, log] = [testClock(), quietMetrics(), quietLog()];
    const wall = createWalls(clock, new Incidents({ clock, log, metrics }))({ kind: "observer", name: "broken" });
    const { heard, observer } = diary();
    const late = async (): Promise<never> => fails();
    const broken = walledObserver({ accepted: fails, attempted: late as () => never, refused: fails }, wall);
    const own = { put: () => undefined, hears: () => false, accepted() {}, attempted() {}, refused() {} };
    const parts = { eventCache: own, circuitBreaker: own, liveFeed: own, statsCollector: own };
    const all = { ...parts, observers: [broken, observer] };
    for (let i = 0; i < 2; i++) acceptedBy(all)({ type: "a:b" } as never);
    attemptedBy(all)({} as never, { status: "delivered" } as never, { number: 1 } as never, { kind: "delivered" });
    refusedBy(all)("BURST_EXCEEDED", undefined);
    expect(heard).toHaveLength(4);
    const failures = ["accepted", "attempted", "refused"].map((hook) => `plugin_faults broken ${hook}`);
    await expect.poll(() => failures.map((name) => metrics.counted.get(name))).toEqual([2, 1, 1]);
  });

  it("wraps within the observers that stand before it", () => {
    const adds = (name: string): Observer => ({
      wrapAccept: (next) => (request) => next({ ...request, source: request.source + name }),
    });
    const observers = [adds("a"), {}, adds("b")];
    const seen: string[] = [];
    const accept = wrapped(
      observers,
      (one) => one.wrapAccept,
      ({ source }) => {
        seen.push(source);
        return Promise.resolve([]);
      },
    );
    void accept({ publications: [], source: "" });
    expect(seen).toEqual(["ab"]);
  });
});

describe("an observer in the config", () => {
  let receiver: Receiver;
  beforeAll(async () => void (receiver = await startReceiver()));
  afterAll(() => receiver.close());

  it("passes a traceparent of its own to storage and receiver, hears of refusals, and is let go at the end", async () => {
    const stored = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
    const sent = `00-${"a".repeat(32)}-${"c".repeat(16)}-01`;
    const contexts: (string | undefined)[] = [];
    let disposed = 0;
    const { heard, observer } = diary({
      wrapAccept: (next) => (request) => next({ ...request, traceparent: stored }),
      wrapSend: (next) => (sub, loaded, turn, signal) => {
        contexts.push(loaded.event.traceparent);
        return next(sub, { ...loaded, event: { ...loaded.event, traceparent: sent } }, turn, signal);
      },
      dispose: async () => void disposed++,
    });
    const limits = { "POST /events": { perMinute: 1, per5s: 1 } };
    await using relay = await startRelay({ limits, observers: [plugin("diary", observer)] });
    await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: receiver.url(), events: ["*"] } });
    expect((await relay.publish({ type: "a:b", keyId: "key_1", data: 1 })).status).toBe(202);
    const refused = await relay.publish({ type: "a:b", keyId: "key_1", data: 2 });
    expect(refused.status).toBe(429);
    await receiver.waitFor(1);
    await relay.stop();
    expect(contexts).toEqual([stored]);
    expect(receiver.requests[0]?.headers["traceparent"]).toBe(sent);
    expect(heard.toSorted()).toEqual([
      "accepted a:b",
      "attempt 1: 200, delivered, delivered",
      "refused RATE_LIMIT_EXCEEDED",
    ]);
    expect(disposed).toBe(1);
  });
});
