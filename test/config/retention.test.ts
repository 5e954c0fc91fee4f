// The rules of retention() in the config: taken as they are, and refused with their path.
import { describe, expect, it } from "vitest";
import { retention } from "../../config/index.ts";
import { resolvePlan } from "../../config/validate.ts";
import { FRAME, problems as problemsOf } from "../support/config.ts";

const DAY = 86_400_000;

const problems = (job: unknown) => problemsOf({ jobs: [job] });

describe("the rules of retention", () => {
  it("stand in the plan as they are written", () => {
    const rules = {
      keys: { key_x: { deliveredAfterMs: 7 * DAY, failedAfterMs: false } },
      types: { "deposit:*": { failedAfterMs: DAY } },
    } as const;
    expect(resolvePlan({ jobs: [retention(rules)] }, FRAME).jobs[0]).toMatchObject({
      deliveredAfterMs: 30 * DAY,
      ...rules,
    });
    expect(problems(retention({ deliveredAfterMs: undefined, keys: rules.keys }))).toEqual({});
  });

  it("are refused with their path when they are wrong", () => {
    const age = "must be a whole number of milliseconds, a day at least, or false";
    const wrong = {
      name: "retention",
      kind: "job",
      schedule: "0 3 * * *",
      keys: { "no key": { failedAfterMs: DAY }, key_x: { deliveredAfterMs: "30d" }, key_y: { failedAfterMs: 5 } },
      types: { "a b": { failedAfterMs: DAY }, "deposit:*": { deliveredAfterMs: 1 } },
    };
    expect(problems(wrong)).toEqual({
      'jobs[0].keys["no key"]': "is no id of an API key",
      "jobs[0].keys.key_x.deliveredAfterMs": age,
      "jobs[0].keys.key_y.failedAfterMs": age,
      'jobs[0].types["a b"]': "is no pattern of event names",
      'jobs[0].types["deposit:*"].deliveredAfterMs': age,
    });
    const typo = { ...wrong, keys: undefined, types: { "deposit:*": { deliveredAfter: DAY } } };
    expect(problems(typo)).toEqual({
      'jobs[0].types["deposit:*"].deliveredAfter': 'is unknown (did you mean "deliveredAfterMs"?)',
    });
    expect(problems({ ...wrong, keys: [], types: undefined })).toHaveProperty("jobs[0].keys");
    expect(Object.values(problems(retention({ deliveredAfterMs: undefined, keys: { key_x: {} } })))).toEqual([
      expect.stringContaining("removes nothing"),
    ]);
  });
});
