// Nobody is starved: what a healthy receiver feels of hostile ones, and how slots are shared over keys and origins.
import { describe, expect, it } from "vitest";
import type { Reply } from "../../core/ports/transport.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

const HEALTH = { breakerAfter: 20, breakerPauseMs: 60_000, breakerMaxPauseMs: 900_000, disableAfterMs: 432_000_000 };
const DELIVERY = { concurrency: 128 };
const ANSWER_MS = 20;

/** What a receiver does, by the path of its URL. */
const MOODS: Readonly<Record<string, { readonly ms: number; readonly reply: Reply }>> = {
  healthy: { ms: ANSWER_MS, reply: replied(200) },
  hangs: { ms: 10_000, reply: { kind: "error", error: "timeout", detail: "too late" } },
  nine: { ms: 9_000, reply: replied(200) },
  late: { ms: 28_000, reply: replied(200) },
  refuses: { ms: 1, reply: replied(500) },
  nonsense: { ms: 1, reply: { kind: "error", error: "protocol", detail: "000" } },
  two: { ms: 2_000, reply: replied(200) },
};

interface Ended {
  readonly subscriptionId: string;
  readonly at: number;
  readonly body: string;
}

/** @param stalledMs every attempt takes so long at least, as on a machine that has no core to spare */
function answering(test: TestPath, stalledMs: () => number = () => 0): Ended[] {
  const ended: Ended[] = [];
  test.otherwise = async ({ url, subscriptionId, body }, signal) => {
    const mood = MOODS[new URL(url).pathname.slice(1)];
    if (mood === undefined) throw new Error(url);
    await test.clock.sleep(test.clock.now() + Math.max(mood.ms, stalledMs()), signal);
    ended.push({ subscriptionId, at: test.clock.now(), body: Buffer.from(body).toString() });
    return mood.reply;
  };
  return ended;
}

const p99 = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? Number.POSITIVE_INFINITY;

/** Ten events a second for a healthy subscription, and one every two seconds for each hostile one. */
async function latencies(hostile: number, healthyFirst = true, stallAt = -1): Promise<readonly number[]> {
  await using test = await testPath({ delivery: DELIVERY, health: HEALTH });
  let stalled = 0;
  const ended = answering(test, () => stalled);
  const moods = ["hangs", "nine", "late", "refuses", "nonsense"];
  const keys = new Set<string>();
  const healthy = (): Promise<string> => test.subscribe(["good"], "key_1", "https://good.example/healthy");
  let good = healthyFirst ? await healthy() : "";
  for (let i = 0; i < hostile; i++) {
    const keyId = i < hostile / 2 ? "key_1" : `key_${2 + (i % 5)}`;
    keys.add(keyId);
    // Some at the origin of the healthy one.
    const origin = i % 10 === 0 ? "good.example" : `bad${i % 7}.example`;
    await test.subscribe(["bad"], keyId, `https://${origin}/${moods[i % moods.length]}`);
  }
  if (!healthyFirst) good = await healthy();
  await test.start();
  const sentAt = new Map<string, number>();
  for (let step = 0; step < 600; step++) {
    stalled = stallAt >= 0 && step >= stallAt && step < stallAt + 50 ? 1_600 : 0;
    if (step % 20 === 0) for (const keyId of keys) await test.publish("bad", { keyId });
    sentAt.set(await test.publish("good"), test.clock.now());
    await test.clock.advance(100);
  }
  await test.clock.advance(1_000);
  const arrived = ended.filter(({ subscriptionId }) => subscriptionId === good);
  expect(arrived).toHaveLength(600);
  return arrived.map(({ at, body }) => at - (sentAt.get((JSON.parse(body) as { id: string }).id) as number));
}

describe("a healthy receiver", () => {
  it("does not feel receivers that hang, answer late, fail or talk nonsense, on its key, its origin and others", async () => {
    const alone = p99(await latencies(0));
    const beside = p99(await latencies(80));
    expect(alone).toBe(ANSWER_MS);
    expect(beside).toBeLessThanOrEqual(Math.min(250, alone * 2));
  });

  it("recovers at once from a while in which everything took long", async () => {
    const all = await latencies(80, true, 200);
    expect(p99(all.slice(270))).toBeLessThanOrEqual(ANSWER_MS * 2);
    expect(Math.max(...all)).toBeLessThanOrEqual(5_000);
  });

  it("that is new is found out among new ones that hang, and feels them no more", async () => {
    const all = await latencies(80, false);
    // Its very first ones are told apart from nothing.
    expect(p99(all.slice(10))).toBeLessThanOrEqual(ANSWER_MS * 2);
    expect(Math.max(...all)).toBeLessThanOrEqual(30_000);
  });
});

/** How many of the last subscription's deliveries end in a minute, with a backlog for all. */
async function served(urls: readonly (readonly [keyId: string, url: string])[]): Promise<number> {
  await using test = await testPath({ delivery: DELIVERY, health: HEALTH });
  const ended = answering(test);
  let last = "";
  for (const [keyId, url] of urls) last = await test.subscribe(["work"], keyId, url);
  const keys = new Set(urls.map(([keyId]) => keyId));
  for (let i = 0; i < 1_000; i++) for (const keyId of keys) await test.publish("work", { keyId });
  await test.start();
  await test.clock.advance(60_000);
  return ended.filter(({ subscriptionId }) => subscriptionId === last).length;
}

describe("slots that are too few for all", () => {
  it("are shared out over API keys, however many subscriptions one has", async () => {
    const mine = ["key_b", "https://two.example/two"] as const;
    const crowd = Array.from({ length: 40 }, () => ["key_a", "https://one.example/two"] as const);
    const [alone, beside] = [await served([mine]), await served([...crowd, mine])];
    expect(beside / alone).toBeGreaterThan(0.8);
  });

  it("are shared out over the origins of one key", async () => {
    const mine = ["key_a", "https://two.example/two"] as const;
    const crowd = Array.from({ length: 40 }, () => ["key_a", "https://one.example/two"] as const);
    const [alone, beside] = [await served([mine]), await served([...crowd, mine])];
    expect(beside / alone).toBeGreaterThan(0.8);
  });
});
