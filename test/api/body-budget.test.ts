// Bodies under way hold never more than the budget, never all of it by one caller, and nothing once they are answered.
import { PassThrough } from "node:stream";
import type { IncomingMessage, ServerResponse } from "node:http";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createBodyBudget, createBodyBudgets, HeldBody, readBody } from "../../core/api/http/body.ts";
import { Call } from "../../core/api/http/call.ts";
import type { Problem } from "../../core/model/problem.ts";

const MIB = 1_048_576;

describe("the budget of bodies", () => {
  it("is never passed, and what is released is free again", () => {
    const step = fc.record({ who: fc.integer({ min: 0, max: 9 }), bytes: fc.integer({ min: 1, max: 9 * MIB }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const budget = createBodyBudget(64 * MIB, 8 * MIB);
        const held: { readonly who: string; readonly bytes: number }[] = [];
        for (const { who, bytes } of steps) {
          const one = { who: `caller ${who}`, bytes };
          if (budget.hold([one.who], bytes)) held.push(one);
          else if (held.length > 0 && bytes % 3 === 0) {
            const gone = held.shift() as (typeof held)[number];
            budget.release([gone.who], gone.bytes);
          }
          expect(budget.held()).toBe(held.reduce((sum, { bytes: each }) => sum + each, 0));
          expect(budget.held()).toBeLessThanOrEqual(64 * MIB);
        }
        for (const { who, bytes } of held) budget.release([who], bytes);
        expect(budget.held()).toBe(0);
        expect(budget.fits(["caller 0"], 16 * MIB)).toBe(true);
      }),
    );
  });

  it("gives one caller a quarter, and leaves room for a longest body of each of six more", () => {
    const budget = createBodyBudget(64 * MIB, 8 * MIB);
    let alone = 0;
    while (budget.hold(["pushing", "its token"], MIB)) alone++;
    expect(alone).toBe(16);
    for (let n = 0; n < 6; n++) expect(budget.hold([`calm ${n}`], 8 * MIB)).toBe(true);
    expect(budget.hold(["one more"], 1)).toBe(false);
  });

  it("counts for an address and for a token: neither gets more by changing the other", () => {
    const budget = createBodyBudget(64 * MIB, 8 * MIB);
    let held = 0;
    for (let n = 0; n < 1_000; n++) if (budget.hold([`10.0.0.${n}`, "one token"], MIB)) held++;
    expect(held).toBe(16);
  });
});

describe("a body", () => {
  const upload = (length?: number) => {
    const stream = new PassThrough({ highWaterMark: 32 * MIB });
    const headers = length === undefined ? {} : { "content-length": String(length) };
    return Object.assign(stream, { headers }) as unknown as PassThrough & IncomingMessage;
  };
  const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

  it("that stalls holds what it has sent, however long it says it is", async () => {
    const budget = createBodyBudget(64 * MIB, 8 * MIB);
    const stalled = Array.from({ length: 500 }, () => upload(8 * MIB));
    const read = stalled.map((req, n) => readBody(req, 8 * MIB, new HeldBody(budget, () => [`10.0.0.${n}`])));
    for (const one of read) one.catch(() => undefined);
    for (const req of stalled) req.write("x");
    await turn();
    expect(budget.held()).toBe(500);
    for (const req of stalled) req.destroy();
  });

  it("of a million single bytes holds little more than a million bytes", async () => {
    const budget = createBodyBudget(64 * MIB, 8 * MIB);
    const req = upload();
    const held = new HeldBody(budget, () => ["slow"]);
    const whole = readBody(req, 8 * MIB, held);
    for (let n = 0; n < MIB; n++) {
      req.emit("data", Buffer.from([n & 255]));
    }
    expect(budget.held()).toBeLessThan(1.1 * MIB);
    req.end();
    req.resume();
    const bytes = await whole;
    expect(bytes.length).toBe(MIB);
    expect([bytes[0], bytes[1_000], bytes.at(-1)]).toEqual([0, 1_000 & 255, (MIB - 1) & 255]);
    held.release();
    held.release();
    expect(budget.held()).toBe(0);
  });

  it("is refused before it is read when there is no room for what it announces, and holds nothing", async () => {
    const budget = createBodyBudget(16 * MIB, 8 * MIB);
    budget.hold(["other"], 8 * MIB);
    budget.hold(["more"], 4 * MIB);
    const held = new HeldBody(budget, () => ["late"]);
    const error = (await readBody(upload(8 * MIB), 8 * MIB, held).catch((reason: unknown) => reason)) as Problem;
    expect([error.code, error.extras.retryAfter, held.refused]).toEqual(["PROVIDER_BACKPRESSURE", 5, true]);
    expect(budget.held()).toBe(12 * MIB);
  });

  it("of one whom nobody knows yet takes no room of publishers", async () => {
    const budgets = createBodyBudgets(16 * MIB);
    const sent = Array.from({ length: 100 }, (_, n) => {
      const req = Object.assign(upload(), { rawHeaders: [] });
      req.write(Buffer.alloc(255 * 1_024));
      return new Call(req, {} as ServerResponse, `req_${n}`, () => `10.0.0.${n}`, budgets);
    });
    const read = sent.map((call) => call.body(256 * 1_024).catch((error: Problem) => error.code));
    await turn();
    expect(budgets.large.held()).toBe(0);
    expect(budgets.large.fits(["a publisher"], 8 * MIB)).toBe(true);
    for (const { req } of sent) req.destroy();
    expect(await Promise.all(read)).toContain("PROVIDER_BACKPRESSURE");
  });
});
