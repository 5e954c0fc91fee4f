// An attempt as the owner of a key sees it.
import { expect, it } from "vitest";
import { attemptView } from "../../core/api/resources/attempts.ts";

const shown = (error: "guard" | "connect", detail: string): unknown =>
  attemptView(
    { ordinal: "00000000000000000000000000", subscriptionId: "sub_1" },
    { cycle: 0, number: 1, startedAt: 0, durationMs: 1, error, detail },
  );

it("names the rule of the guard that refused it, and no address of an inner network", () => {
  expect(shown("guard", "the host is not on the public internet")).toMatchObject({
    error: "guard",
    detail: "the host is not on the public internet",
  });
  expect(JSON.stringify(shown("connect", "connect ECONNREFUSED 10.0.0.7:443"))).not.toContain("10.0.0.7");
});
