// What an auth plug-in answers is read once, and one of a wrong shape gives no rights.
import { describe, expect, it } from "vitest";
import type { Auth, Principal } from "../../core/ports/auth.ts";
import type { RouteRequest } from "../../core/ports/route.ts";
import { containAuth } from "../../core/runtime/contain/auth.ts";
import { createDeadlines } from "../../core/runtime/contain/deadlines.ts";
import { createIncidents } from "../../core/runtime/contain/incidents.ts";
import { testClock } from "../support/clock.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

const GOOD = { sub: "a", keys: ["key_1"], amr: ["pwd"], expiresAt: 1 };
const never = <T>(): Promise<T> => new Promise<T>(() => undefined);

function authOf(over: Partial<Auth>) {
  const [clock, log, metrics] = [testClock(), quietLog(), quietMetrics()];
  const incidents = createIncidents({ clock, log, metrics });
  const port: Auth = { authenticate: async () => GOOD, ready: () => true, ...over };
  const auth = containAuth(
    port,
    { kind: "auth", name: "wild-1" },
    {
      clock,
      incidents,
      deadlines: createDeadlines(clock),
    },
  );
  return { auth, clock, calls: () => log.lines.map(({ fields }) => fields?.["action"]) };
}

const judged = async (answer: unknown) => {
  const { auth, calls } = authOf({ authenticate: async () => answer as Principal });
  return { found: await auth.authenticate({} as RouteRequest), calls: calls() };
};

describe("an auth that answers with", () => {
  it.each([
    ["an access that is none", { access: "admin" }],
    ["an end that is no number", { expiresAt: Number.NaN }],
    ["factors that are no texts", { amr: [1] }],
    ["a time of login that is text", { authTime: "9999999999" }],
    ["a class that is no text", { acr: {} }],
    ["a portal that is no text", { portal: 1 }],
    ["a name that is too long", { sub: "x".repeat(1_025) }],
  ])("%s gives no rights, and is named", async (_, over) => {
    const { found, calls } = await judged({ ...GOOD, ...over });
    expect(found).toHaveProperty("refused");
    expect(calls).toEqual(["authenticate"]);
  });

  it("a principal that changes gives the rights that were checked", async () => {
    let asked = 0;
    const answer = {
      ...GOOD,
      get keys() {
        return asked++ === 0 ? ["key_1"] : "*";
      },
    };
    const { found } = await judged(answer);
    expect((found as Principal).keys).toEqual(["key_1"]);
    expect((found as Principal).keys).toEqual(["key_1"]);
  });

  it("a list of keys that says yes to all gives those that are in it", async () => {
    const keys = Object.assign(["key_1"], { includes: () => true });
    const { found } = await judged({ ...GOOD, keys });
    expect((found as Principal).keys.includes("key_2")).toBe(false);
    keys.push("key_2");
    expect((found as Principal).keys).toEqual(["key_1"]);
  });
});

describe("an auth whose", () => {
  it("firstRun hangs or throws is named, and the wait for it ends", async () => {
    const hangs = authOf({ firstRun: never });
    const asked = expect(hangs.auth.firstRun?.()).rejects.toThrow("no answer within 10000 ms");
    await hangs.clock.advance(15_000);
    await asked;
    expect(hangs.calls()).toEqual(["firstRun"]);
    const throws = authOf({
      firstRun() {
        throw new Error("broken");
      },
    });
    await expect(throws.auth.firstRun?.()).rejects.toThrow("broken");
    expect(throws.calls()).toEqual(["firstRun"]);
  });

  it("standing is no text is named", async () => {
    const { auth, calls } = authOf({ standing: async () => 5 as never });
    await expect(auth.standing?.("a")).rejects.toThrow("its answer is no text");
    expect(calls()).toEqual(["standing"]);
  });
});
