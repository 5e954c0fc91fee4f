// The limiter: rows, callers, headers, what is given back, suspensions that outlive the process, codes that are guessed.
import { describe, expect, it } from "vitest";
import { Limiter } from "../../core/limits/limiter.ts";
import type { LimiterDeps, LimitVerdict } from "../../core/limits/limiter.ts";
import type { AbuseOptions } from "../../core/ports/plan.ts";
import { counterKey } from "../../core/limits/takes.ts";
import { restForm, routeShape } from "../../core/limits/route-limits.ts";
import { addressGroup } from "../../core/lib/address.ts";
import { Problem } from "../../core/model/problem.ts";
import type { Counters } from "../../core/ports/storage.ts";
import { ABUSE } from "../../config/defaults.ts";
import { defaultRows } from "../../config/limits.ts";
import { createCounters } from "../../plugins/storage/embedded/counters.ts";
import { testClock } from "../support/clock.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { shelf } from "../support/shelf.ts";

const ROWS = {
  "POST /a/{id}": { perMinute: 15, per5s: 3 },
  "GET /b": { perMinute: 60, per5s: 10 },
  "GET /off": false,
} as const;

function setUp(more: Partial<LimiterDeps> = {}) {
  const clock = testClock(1_800_000_000_000);
  const deps = { counters: createCounters(clock), rows: ROWS, abuse: ABUSE as AbuseOptions | false, clock, ...more };
  const limiter = new Limiter(deps);
  const check = async (...args: Parameters<typeof limiter.check>): Promise<LimitVerdict> =>
    (await limiter.check(...args)) as LimitVerdict;
  return { clock, limiter, check };
}
const drain = async (
  check: (row: string, who: string) => Promise<LimitVerdict>,
  row: string,
  who: string,
  times: number,
) => {
  let last: LimitVerdict | undefined;
  for (let i = 0; i < times; i++) last = await check(row, who);
  return last as LimitVerdict;
};

describe("an answer", () => {
  it("carries both families of headers", async () => {
    const { check } = setUp();
    expect((await check("POST /a/{id}", "alice")).headers).toEqual({
      "X-RateLimit-Limit": "15",
      "X-RateLimit-Remaining": "14",
      "X-RateLimit-Reset": "1800000060",
      "X-Burst-Limit": "3",
      "X-Burst-Remaining": "2",
      "X-Burst-Reset": "1800000005",
      "RateLimit-Policy": '"sustained";q=15;w=60, "burst";q=3;w=5',
      RateLimit: '"sustained";r=14;t=60, "burst";r=2;t=5',
    });
    await drain(check, "POST /a/{id}", "alice", 2);
    const { code, retryAfter, headers } = await check("POST /a/{id}", "alice");
    expect([code, retryAfter, headers["Retry-After"]]).toEqual(["BURST_EXCEEDED", 5, "5"]);
  });

  it("has none where there is no row, or where it is switched off", async () => {
    const { check } = setUp();
    for (const row of ["GET /off", "GET /nowhere"]) expect(await check(row, "alice")).toBeUndefined();
  });

  it("is counted in the metrics by its code", async () => {
    const metrics = quietMetrics();
    const { check } = setUp({ metrics });
    await drain(check, "POST /a/{id}", "alice", 4);
    expect([...metrics.counted]).toEqual([["limiter_verdicts passed", 3], ["limiter_verdicts BURST_EXCEEDED", 1]]); // prettier-ignore
  });
});

describe("rows and callers", () => {
  it("are apart: another endpoint and another caller have windows of their own", async () => {
    const { check } = setUp();
    await drain(check, "POST /a/{id}", "alice", 4);
    expect((await check("GET /b", "alice")).headers["X-RateLimit-Remaining"]).toBe("59");
    expect((await check("POST /a/{id}", "bob")).headers["X-RateLimit-Remaining"]).toBe("14");
  });

  it("of one operation share one row, however it is spelt", async () => {
    expect(routeShape("post /a/:x")).toBe(routeShape("POST /a/{id}"));
    expect(routeShape("PATCH /v1/qr/:slug")).toBe(routeShape("POST /v1/qr/update"));
    expect(routeShape("DELETE /v1/links/{slug}")).toBe(routeShape("POST /v1/links/delete"));
    expect(routeShape("PATCH /v1/account/me")).not.toBe(routeShape("POST /v1/account/update"));
    expect(routeShape("GET /v1/qr/{slug}")).toBe("GET /v1/qr/{}");
    expect(Object.keys(defaultRows).map(restForm).filter(Boolean).sort()).toEqual([
      "DELETE /v1/links/{slug}",
      "DELETE /v1/qr/{slug}",
      "PATCH /v1/links/{slug}",
      "PATCH /v1/qr/{slug}",
    ]);
    const { check } = setUp({ rows: defaultRows });
    await check("PATCH /v1/qr/{slug}", "k");
    expect((await check("POST /v1/qr/update", "k")).headers["X-RateLimit-Remaining"]).toBe("13");
  });

  it("of two callers never have one counter, whatever name one of them takes", () => {
    const hashed = counterKey("e", "x".repeat(200));
    expect(counterKey("e", hashed.slice("e ".length))).not.toBe(hashed);
  });

  it("are spelt otherwise, or switched off, by an override", async () => {
    const { check } = setUp({ rows: { ...ROWS, "POST /a/{other}": { perMinute: 5, per5s: 5 } } });
    expect((await check("POST /a/{id}", "alice")).headers["X-RateLimit-Limit"]).toBe("5");
    expect(await setUp({ rows: { ...ROWS, "POST /a/:x": false } }).check("POST /a/{id}", "alice")).toBeUndefined();
  });

  it("that come together must all pass, and the headers tell of the one with the least left", async () => {
    const { check } = setUp();
    const callers = (n: number) => [`key ${n}`, { principal: "ip", factor: 10 }];
    for (let i = 0; i < 30; i++) {
      const verdict = await check("POST /a/{id}", callers(i));
      expect(verdict.code).toBeUndefined();
      expect(verdict.headers["X-Burst-Limit"]).toBe(30 - i - 1 < 2 ? "30" : "3");
    }
    const refused = await check("POST /a/{id}", callers(99));
    expect([refused.code, refused.headers["X-Burst-Limit"]]).toEqual(["BURST_EXCEEDED", "30"]);
    expect((await check("POST /a/{id}", "key 99")).headers["X-RateLimit-Remaining"]).toBe("14");
  });

  it("that come together are refused for the gravest reason of them", async () => {
    const { clock, check } = setUp({ rows: { "POST /a/{id}": { perMinute: 4, per5s: 3 } } });
    await drain(check, "POST /a/{id}", "alice", 3);
    await clock.advance(5_000);
    await check("POST /a/{id}", "alice");
    await drain(check, "POST /a/{id}", "bob", 3);
    for (const both of [
      ["alice", "bob"],
      ["bob", "alice"],
    ])
      expect((await check("POST /a/{id}", both)).code).toBe("RATE_LIMIT_EXCEEDED");
  });

  it("are suspended alone, not with all that share a window with them", async () => {
    const { check } = setUp();
    const caller = (name: string) => [name, { principal: "together", shared: true }];
    for (let i = 0; i < 90; i++) await check("POST /a/{id}", caller("eve"));
    expect((await check("POST /a/{id}", caller("eve"))).code).toBe("ABUSE_SUSPEND");
    expect((await check("POST /a/{id}", caller("alice"))).code).toBe("BURST_EXCEEDED");
  });

  it.each(["__proto__", "constructor", "", " ", "a b", "#x", "ä".repeat(300), "x".repeat(9_000), "\u0000\n", "😀"])(
    "count %j as a caller like any other",
    async (sub) => {
      const { check } = setUp();
      await drain(check, "POST /a/{id}", sub, 3);
      expect((await check("POST /a/{id}", sub)).code).toBe("BURST_EXCEEDED");
      expect((await check("POST /a/{id}", `${sub}'`)).code).toBeUndefined();
    },
  );

  it("that are new count from the next request on, in the windows that are open", async () => {
    const { check, limiter } = setUp();
    await drain(check, "POST /a/{id}", "alice", 3);
    limiter.configure({ "POST /a/{id}": { perMinute: 100, per5s: 50 } }, false);
    expect((await check("POST /a/{id}", "alice")).headers["X-RateLimit-Remaining"]).toBe("96");
    limiter.configure({ "POST /a/{id}": { perMinute: 2, per5s: 2 } }, false);
    expect((await check("POST /a/{id}", "alice")).headers["X-RateLimit-Remaining"]).toBe("0");
  });
});

describe("what is our own fault", () => {
  it("is given back, once, and the headers say so", async () => {
    const { check } = setUp();
    await check("POST /a/{id}", "alice");
    const verdict = await check("POST /a/{id}", "alice");
    expect((await verdict.giveBack())["X-RateLimit-Remaining"]).toBe("14");
    await verdict.giveBack();
    expect((await check("POST /a/{id}", "alice")).headers["X-RateLimit-Remaining"]).toBe("13");
  });

  it("consumes nothing as back-pressure, and a window that is full goes before it", async () => {
    const { check } = setUp();
    const busy = await check("POST /a/{id}", "alice", { busyMs: 7_200 });
    expect([busy.code, busy.retryAfter, busy.headers["X-RateLimit-Remaining"]]).toEqual([
      "PROVIDER_BACKPRESSURE",
      8,
      "15",
    ]);
    // The next one has as much left as if the slot was given back: it was, and not only said to be.
    expect((await check("POST /a/{id}", "alice")).headers["X-RateLimit-Remaining"]).toBe("14");
    await drain(check, "POST /a/{id}", "alice", 2);
    const full = await check("POST /a/{id}", "alice", { busyMs: 30_000 });
    expect([full.code, full.retryAfter]).toEqual(["BURST_EXCEEDED", 30]);
    expect(await check("GET /off", "alice", { busyMs: 1 })).toMatchObject({
      code: "PROVIDER_BACKPRESSURE",
      retryAfter: 1,
    });
  });
});

describe("a suspension", () => {
  const suspend = async (check: (row: string, who: string) => Promise<LimitVerdict>) =>
    drain(check, "POST /a/{id}", "alice", 3 + 75);

  it("outlives the process, with its strikes", async () => {
    const storage = shelf();
    const first = setUp({ storage });
    expect((await suspend(first.check)).code).toBe("ABUSE_SUSPEND");
    const second = setUp({ storage });
    await second.clock.step(100_000);
    expect(await second.limiter.load()).toBe(1);
    expect(await second.check("POST /a/{id}", "alice")).toMatchObject({ code: "ABUSE_SUSPEND", retryAfter: 200 });
    expect((await second.check("POST /a/{id}", "bob")).code).toBeUndefined();
    await second.clock.advance(200_000);
    expect((await suspend(second.check)).retryAfter).toBe(600);
  });

  it("is stored with the date of its removal, and only the newest of each caller", async () => {
    const storage = shelf();
    const { clock, check } = setUp({ storage });
    await suspend(check);
    await clock.advance(300_000);
    await suspend(check);
    expect([...storage.rows.keys()].map((key) => key.split(":")[0]).sort()).toEqual(["expiry", "suspension"]);
    expect([...storage.rows.keys()].join()).not.toContain("alice");
    const target = [...storage.rows.keys()].find((key) => key.startsWith("suspension:"));
    expect([...storage.rows.keys()].find((key) => key.startsWith("expiry:"))?.endsWith(target as string)).toBe(true);
  });

  it("that cannot be stored holds all the same", async () => {
    const storage = shelf();
    storage.before = () => Promise.reject(new Error("full"));
    const log = quietLog();
    const { check } = setUp({ storage, log });
    expect((await suspend(check)).code).toBe("ABUSE_SUSPEND");
    expect(log.lines).toHaveLength(1);
    expect((await check("POST /a/{id}", "alice")).code).toBe("ABUSE_SUSPEND");
  });

  it("that is broken in storage, or forgotten, is passed over at a start", async () => {
    const storage = shelf();
    const first = setUp({ storage });
    await suspend(first.check);
    storage.rows.set("suspension:a", "{");
    storage.rows.set("suspension:b", '{"key":1}');
    const clock = testClock(1_800_000_000_000 + 86_400_000);
    const held: string[] = [];
    const counters = { ...createCounters(clock), restore: (key: string) => void held.push(key) };
    const later = setUp({ storage, clock, counters });
    expect(await later.limiter.load()).toBe(0);
    expect(held).toEqual([]);
    expect((await later.check("POST /a/{id}", "alice")).code).toBeUndefined();
  });

  it("is made no longer by a wall clock that was set back", async () => {
    const storage = shelf();
    await suspend(setUp({ storage }).check);
    const second = setUp({ storage });
    await second.clock.step(-86_400_000);
    await second.limiter.load();
    expect((await second.check("POST /a/{id}", "alice")).retryAfter).toBe(300);
  });

  it("is not begun where abuse is switched off", async () => {
    const { check } = setUp({ abuse: false });
    expect((await drain(check, "POST /a/{id}", "alice", 500)).code).toBe("BURST_EXCEEDED");
  });

  it("of a row stays in storage, and out of force, while abuse is switched off", async () => {
    const storage = shelf();
    await drain(setUp({ storage }).check, "POST /a/{id}", "alice", 200);
    expect(await setUp({ storage, abuse: false }).limiter.load()).toBe(0);
    expect(await setUp({ storage }).limiter.load()).toBe(1);
  });
});

describe("codes that are guessed", () => {
  const place = "POST /auth/step-up";
  const right = (): Promise<string> => Promise.resolve("right");
  const wrong = (): Promise<string> => Promise.reject(new Problem("UNAUTHENTICATED", "wrong"));
  /** The code of the answer, and its Retry-After; "right" when the guess was. */
  const ended = (guess: Promise<string>): Promise<unknown> =>
    guess.catch((error: unknown) => {
      const { code, extras } = error as Problem;
      return extras.retryAfter === undefined ? code : [code, extras.retryAfter];
    });

  it.each([
    ["as it is", ABUSE as AbuseOptions | false, ROWS],
    ["with abuse switched off", false as const, ROWS],
    ["with every row switched off", false as const, { [place]: false, "failed authentication": false } as const],
    ["with a rule that forgives much", { ...ABUSE, failures: 1_000, suspendMs: 1_000, maxSuspendMs: 1_000 }, ROWS],
  ])("wrongly ten times within ten minutes suspend that account, there, for 300 s: %s", async (_name, abuse, rows) => {
    const storage = shelf();
    const { clock, limiter } = setUp({ rows, storage, abuse });
    for (let i = 0; i < 10; i++) {
      expect(await ended(limiter.guess(place, "alice", wrong))).toBe("UNAUTHENTICATED");
      await clock.advance(50_000);
    }
    expect(await ended(limiter.guess(place, "alice", right))).toEqual(["ABUSE_SUSPEND", 250]);
    expect(await limiter.guess(place, "bob", right)).toBe("right");
    expect(await limiter.guess("POST /auth/login", "alice", right)).toBe("right");
    expect((await limiter.check("GET /b", "alice"))?.code).toBeUndefined();

    const restarted = setUp({ rows, storage, abuse });
    await restarted.clock.step(500_000);
    expect(await restarted.limiter.load()).toBe(1);
    expect(await ended(restarted.limiter.guess(place, "alice", right))).toEqual(["ABUSE_SUSPEND", 250]);
    await clock.advance(250_000);
    expect(await limiter.guess(place, "alice", right)).toBe("right");
  });

  it("wrongly a day after the last suspension begin a first one again, also when a restart lies between", async () => {
    const storage = shelf();
    const abuse = { ...ABUSE, forgetMs: 3_600_000 };
    const before = setUp({ storage, abuse });
    for (let i = 0; i < 10; i++) await ended(before.limiter.guess(place, "alice", wrong));
    const { clock, limiter } = setUp({ storage, abuse });
    await clock.step(20 * 3_600_000);
    await limiter.load();
    await clock.advance(5 * 3_600_000);
    for (let i = 0; i < 10; i++) await ended(limiter.guess(place, "alice", wrong));
    expect(await ended(limiter.guess(place, "alice", right))).toEqual(["ABUSE_SUSPEND", 300]);
  });

  it("are bounded more strictly by a rule about abuse", async () => {
    const { limiter } = setUp({ abuse: { ...ABUSE, failures: 2, suspendMs: 600_000 } });
    for (let i = 0; i < 2; i++) await ended(limiter.guess(place, "alice", wrong));
    expect(await ended(limiter.guess(place, "alice", right))).toEqual(["ABUSE_SUSPEND", 600]);
  });

  it("rightly in any number, or with a fault of ours, count for nothing", async () => {
    const { limiter } = setUp();
    const broken = (): Promise<string> => Promise.reject(new Problem("STORAGE_UNAVAILABLE", "later"));
    for (let i = 0; i < 30; i++) {
      expect(await limiter.guess(place, "alice", right)).toBe("right");
      expect(await ended(limiter.guess(place, "alice", broken))).toBe("STORAGE_UNAVAILABLE");
    }
  });

  it("many at once are not all tried before the first is counted", async () => {
    const { limiter } = setUp();
    let tried = 0;
    const guess = async (): Promise<string> => {
      tried++;
      await new Promise(setImmediate);
      return wrong();
    };
    const all = await Promise.all(Array.from({ length: 200 }, () => ended(limiter.guess(place, "alice", guess))));
    expect(tried).toBe(3);
    expect(all.filter((one) => Array.isArray(one) && one[0] === "BURST_EXCEEDED")).toHaveLength(197);
  });

  it("wrongly ten times over a longer time do not suspend", async () => {
    const { clock, limiter } = setUp();
    for (let i = 0; i < 30; i++) {
      await ended(limiter.guess(place, "alice", wrong));
      await clock.advance(67_000);
    }
    expect(await limiter.guess(place, "alice", right)).toBe("right");
  });
});

describe("failed authentication", () => {
  it("is answered 429 after 300 a minute, and touches no valid token of that address", async () => {
    const { clock, limiter, check } = setUp();
    for (let i = 0; i < 300; i++) expect((await limiter.unauthenticated("203.0.113.7")).code).toBeUndefined();
    expect(await limiter.unauthenticated("203.0.113.7")).toMatchObject({ code: "RATE_LIMIT_EXCEEDED", retryAfter: 60 });
    expect((await limiter.unauthenticated("203.0.113.8")).code).toBeUndefined();
    expect((await check("POST /a/{id}", "alice")).headers["X-RateLimit-Remaining"]).toBe("14");
    for (let i = 0; i < 5_000; i++) await limiter.unauthenticated("203.0.113.7");
    await clock.advance(60_000);
    expect((await limiter.unauthenticated("203.0.113.7")).code).toBeUndefined();
  });
});

describe("counters that answer later", () => {
  it("are waited for", async () => {
    const clock = testClock();
    const near = createCounters(clock);
    const far: Counters = {
      take: async (takes) => near.take(takes),
      giveBack: async (takes, taken) => near.giveBack(takes, taken),
    };
    const { check } = setUp({ counters: far });
    expect((await drain(check, "POST /a/{id}", "alice", 4)).code).toBe("BURST_EXCEEDED");
  });
});

describe("addresses", () => {
  it.each([
    ["203.0.113.7", "203.0.113.7"],
    ["::ffff:203.0.113.7", "203.0.113.7"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:DB8:1:2::9", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
  ])("%s is counted as %s", (address, group) => expect(addressGroup(address)).toBe(group));
});
