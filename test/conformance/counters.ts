/** The law of the counters: what every storage's `counters` must decide, whichever process asks. */
import { expect } from "vitest";
import type { Abuse, Take, WindowResult } from "../../core/model/windows.ts";
import type { Counters } from "../../core/ports/storage.ts";

export interface CountersHarness {
  /** Fresh counters; several calls share one store where the storage is shared by several nodes. */
  open(): Promise<Counters>;
  /**
   * Moves the counters' own clock on. Where that is a server's clock, `undefined`: laws about time are then registered with
   * `it.skip` and the reason.
   */
  readonly advance?: (ms: number) => Promise<void> | void;
  /** A key that no other law uses. */
  key(): string;
}

type Register = (name: string, law: () => Promise<void>) => unknown;

const ABUSE: Abuse = {
  refusals: 30,
  windowMs: 60_000,
  suspendMs: 300_000,
  maxSuspendMs: 3_600_000,
  forgetMs: 86_400_000,
};
const take = (key: string, perMinute = 6, per5s = 2, abuse?: Abuse): Take => ({
  key,
  sustained: { limit: perMinute, windowMs: 60_000 },
  burst: { limit: per5s, windowMs: 5_000 },
  ...(abuse === undefined ? {} : { abuse }),
});

/** Registers the laws with `it`. Those about time are registered with `it.skip` where the harness cannot move time. */
export function describeCounters(it: Register & { readonly skip: Register }, harness: CountersHarness): void {
  const one = async (counters: Counters, ask: Take): Promise<WindowResult> =>
    (await counters.take([ask]))[0] as WindowResult;
  const timed: Register = (name, law) =>
    harness.advance === undefined
      ? it.skip(`${name} (skipped: this store's clock cannot be moved by a test)`, law)
      : it(name, law);
  const advance = async (ms: number): Promise<void> => harness.advance?.(ms);

  it("a first request passes and both windows are told", async () => {
    const taken = await one(await harness.open(), take(harness.key()));
    expect(taken.code).toBeUndefined();
    expect(taken.waitMs).toBe(0);
    expect(taken.sustained.remaining).toBe(5);
    expect(taken.burst.remaining).toBe(1);
    expect(taken.sustained.resetMs).toBeGreaterThan(59_000);
    expect(taken.sustained.resetMs).toBeLessThanOrEqual(60_000);
    expect(taken.burst.resetMs).toBeLessThanOrEqual(5_000);
  });

  it("the burst window refuses at once, and a refusal consumes nothing", async () => {
    const counters = await harness.open();
    const ask = take(harness.key());
    await one(counters, ask);
    await one(counters, ask);
    for (let i = 0; i < 3; i++) {
      const taken = await one(counters, ask);
      expect(taken.code).toBe("BURST_EXCEEDED");
      expect(taken.sustained.remaining).toBe(4);
      expect(taken.waitMs).toBeGreaterThan(0);
      expect(taken.waitMs).toBeLessThanOrEqual(5_000);
    }
  });

  it("of a hundred requests at once exactly as many pass as the burst window holds", async () => {
    const nodes = [await harness.open(), await harness.open()];
    const ask = take(harness.key(), 15, 3);
    const shared = await sharesState(nodes as [Counters, Counters], harness.key());
    const used = shared ? nodes : [nodes[0] as Counters];
    const all = await Promise.all(Array.from({ length: 100 }, (_, i) => one(used[i % used.length] as Counters, ask)));
    expect(all.filter(({ code }) => code === undefined)).toHaveLength(3);
  });

  it("several takes pass together or not at all", async () => {
    const counters = await harness.open();
    const [narrow, wide] = [take(harness.key(), 6, 1), take(harness.key(), 60, 20)];
    await counters.take([narrow, wide]);
    const [refused, untouched] = (await counters.take([narrow, wide])) as [WindowResult, WindowResult];
    expect(refused.code).toBe("BURST_EXCEEDED");
    expect(untouched.code).toBeUndefined();
    expect(untouched.sustained.remaining).toBe(59);
    expect((await one(counters, wide)).sustained.remaining).toBe(58);
  });

  it("keys do not touch each other", async () => {
    const counters = await harness.open();
    const [a, b] = [take(harness.key(), 6, 1), take(harness.key(), 6, 1)];
    await one(counters, a);
    expect((await one(counters, a)).code).toBe("BURST_EXCEEDED");
    expect((await one(counters, b)).code).toBeUndefined();
  });

  it("keys of any text are kept apart", async () => {
    const counters = await harness.open();
    const base = harness.key();
    for (const tail of ["a:b", "a/b", "a\\b", "a?b", "a*b", "{a}b", "__proto__", "ä", " "]) {
      expect((await one(counters, take(`${base}${tail}`, 6, 1))).code).toBeUndefined();
    }
  });

  it("a slot that is given back can be taken again", async () => {
    const counters = await harness.open();
    const ask = take(harness.key(), 6, 1);
    const first = await counters.take([ask]);
    await counters.giveBack([ask], first);
    const again = await one(counters, ask);
    expect(again.code).toBeUndefined();
    expect(again.sustained.remaining).toBe(5);
  });

  it("the refusal that is one too many suspends, and says so once", async () => {
    const counters = await harness.open();
    const ask = take(harness.key(), 6, 2, { ...ABUSE, refusals: 5 });
    await one(counters, ask);
    await one(counters, ask);
    for (let i = 0; i < 4; i++) expect((await one(counters, ask)).code).toBe("BURST_EXCEEDED");
    const last = await one(counters, ask);
    expect(last.code).toBe("ABUSE_SUSPEND");
    expect(last.suspended).toEqual({ strikes: 1, forMs: 300_000 });
    expect(last.waitMs).toBeGreaterThan(299_000);
    const next = await one(counters, ask);
    expect(next.code).toBe("ABUSE_SUSPEND");
    expect(next.suspended).toBeUndefined();
  });

  timed("windows are half-open: refused until the last millisecond, then open", async () => {
    const counters = await harness.open();
    const ask = take(harness.key(), 2, 2);
    await one(counters, ask);
    await one(counters, ask);
    await advance(59_999);
    const refused = await one(counters, ask);
    expect(refused.code).toBe("RATE_LIMIT_EXCEEDED");
    expect(refused.waitMs).toBe(1);
    await advance(1);
    expect((await one(counters, ask)).sustained.remaining).toBe(1);
  });

  timed("a slot is not given back to a window that began later", async () => {
    const counters = await harness.open();
    const ask = take(harness.key(), 6, 1);
    const first = await counters.take([ask]);
    await advance(5_000);
    await one(counters, ask);
    await counters.giveBack([ask], first);
    const third = await one(counters, ask);
    expect(third.code).toBe("BURST_EXCEEDED");
    expect(third.sustained.remaining).toBe(5);
  });

  timed("nor to a minute that began later", async () => {
    const counters = await harness.open();
    const ask = take(harness.key(), 3, 3);
    const first = await counters.take([ask]);
    await advance(60_000);
    await one(counters, ask);
    await counters.giveBack([ask], first);
    expect((await one(counters, ask)).sustained.remaining).toBe(1);
  });

  timed("a second strike lasts twice as long, up to the most; a day later strikes are forgotten", async () => {
    const counters = await harness.open();
    const ask = take(harness.key(), 6, 1, { ...ABUSE, refusals: 1 });
    const lengths: number[] = [];
    for (let i = 0; i < 6; i++) {
      await one(counters, ask);
      const { suspended } = await one(counters, ask);
      lengths.push(suspended?.forMs ?? 0);
      await advance(suspended?.forMs ?? 0);
    }
    expect(lengths).toEqual([300_000, 600_000, 1_200_000, 2_400_000, 3_600_000, 3_600_000]);
    await advance(86_400_000);
    await one(counters, ask);
    expect((await one(counters, ask)).suspended).toEqual({ strikes: 1, forMs: 300_000 });
  });
}

/** Two opened counters stand for nodes of one store. */
async function sharesState(nodes: readonly [Counters, Counters], key: string): Promise<boolean> {
  const ask = take(key, 6, 1);
  await nodes[0].take([ask]);
  return ((await nodes[1].take([ask]))[0] as WindowResult).code !== undefined;
}
