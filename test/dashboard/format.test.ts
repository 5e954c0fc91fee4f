// Numbers and times in words.
import { describe, expect, it } from "vitest";
import { ago, count } from "../../dashboard/client/state/format.ts";

describe("numbers", () => {
  it("are grouped, with one digit after the point at most", () => {
    expect([0, 5, 999, 1_000, 1_234_567, 12.34, 999.96, -1_234].map(count)).toEqual([
      "0",
      "5",
      "999",
      "1,000",
      "1,234,567",
      "12.3",
      "1,000",
      "-1,234",
    ]);
  });
});

describe("times", () => {
  it("are said in the largest unit that they fill", () => {
    const now = Date.parse("2026-01-01T00:00:00Z");
    const said = (seconds: number): string => ago(new Date(now + seconds * 1_000).toISOString(), now);
    expect([0, -4, -5, -59, -60, -119, -3_600, -86_400, -200_000].map(said)).toEqual([
      "just now",
      "just now",
      "5 seconds ago",
      "59 seconds ago",
      "1 minute ago",
      "1 minute ago",
      "1 hour ago",
      "1 day ago",
      "2 days ago",
    ]);
    expect([90, 3_600, 172_800].map(said)).toEqual(["in 1 minute", "in 1 hour", "in 2 days"]);
  });
});
