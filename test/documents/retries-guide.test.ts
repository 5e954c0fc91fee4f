// The code keeps the schedule and the circuit breaker of docs/retries.md.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { HEALTH, RETRY } from "../../config/defaults.ts";
import { updateBody } from "../../core/api/resources/subscription-schema.ts";
import { retryDelayMs } from "../../core/deliver/outcome.ts";
import { scheduleOf, type RetryOptions } from "../../core/model/subscription.ts";

const page = readFileSync(new URL("../../docs/retries.md", import.meta.url), "utf8");
/** The first two cells of each row whose first cell is as the pattern says. */
const rows = (first: RegExp): readonly (readonly string[])[] =>
  [...page.matchAll(/^\|(.*)\|$/gm)]
    .map(([, cells = ""]) => cells.split("|").map((cell) => cell.trim()))
    .filter(([cell = ""]) => first.test(cell));
const waits = (retry: RetryOptions): readonly number[] =>
  Array.from({ length: retry.attempts - 1 }, (_, i) => retryDelayMs(i + 1, retry, 0));

/** The body of the first PATCH that has this field. */
const patches = (field: string): string =>
  [...page.matchAll(/^PATCH .*\n(\{.*\})$/gm)].map(([, body = ""]) => body).find((body) => body.includes(field)) ?? "";

describe("the guide to retries", () => {
  it("shows the default schedule", () => {
    let since = 0;
    const schedule = waits(RETRY).map((wait, i) => [`${i + 1}`, `${wait / 1_000} s`, `${(since += wait) / 1_000} s`]);
    expect(rows(/^[1-4]$/)).toEqual(schedule);
  });

  it("names the defaults of `retry` and `health`", () => {
    const retry = rows(/^`(?:attempts|firstDelayMs|factor|maxDelayMs)`$/);
    expect(retry.map(([name, value]) => [name, value])).toEqual(
      Object.entries(RETRY).map(([name, value]) => [`\`${name}\``, String(value)]),
    );
    const health = rows(/^`health\./).map(([name, value]) => [name, value]);
    expect(health).toEqual(Object.entries(HEALTH).map(([name, value]) => [`\`health.${name}\``, String(value)]));
    expect(page).toContain(`After ${HEALTH.breakerAfter} failed attempts in a row`);
  });

  it("stretches five attempts over a day with settings that the API takes", () => {
    const { retry } = updateBody(["https"]).parse(JSON.parse(patches("factor")));
    const all = waits(retry as RetryOptions);
    expect(all.map((wait) => wait / 60_000)).toEqual([17, 68, 4 * 60 + 32, 18 * 60 + 8]);
    expect(Math.round(all.reduce((sum, wait) => sum + wait, 0) / 3_600_000)).toBe(24);
  });

  it("lists waits that the API takes, and says when the attempts come", () => {
    const { retry } = updateBody(["https"]).parse(JSON.parse(patches("delaysMs")));
    const delays = retry?.delaysMs ?? [];
    expect(waits(scheduleOf(delays))).toEqual(delays);
    const hours = delays.map((_, i) => delays.slice(0, i + 1).reduce((sum, wait) => sum + wait, 0) / 3_600_000);
    expect(hours.map((hour) => hour.toFixed(0))).toEqual(["0", "1", "25", "71"]);
    expect(page).toContain("0, 1 min, 1 h, 25 h, 71 h");
    expect(page).toContain("--retry-delays 1m,1h,1d,46h");
  });
});
