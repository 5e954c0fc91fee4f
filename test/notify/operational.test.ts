import { describe, expect, it } from "vitest";
import { desk, subscription } from "../support/intake.ts";

describe("an operational event", () => {
  it("is stored and delivered like any other when somebody wants it", async () => {
    const made = desk();
    made.subscriptions = [subscription("a", { events: ["relay:*"] }), subscription("b", { events: ["*"] })];
    await made.operational.accept("key_1", "relay:delivery.failed", { deliveryId: "dlv_1" });
    expect(made.told[0]).toMatchObject({ type: "relay:delivery.failed", subscriptionIds: ["sub_a"] });
    expect(made.shelf.added).toHaveLength(1);
  });

  it("leaves nothing behind when nobody wants it", async () => {
    const made = desk();
    await made.operational.accept("key_1", "relay:delivery.failed", {});
    expect(made.shelf.rows.size).toBe(0);
  });

  it("can be a part of the commit that it tells of", async () => {
    const made = desk();
    made.subscriptions = [subscription("a", { events: ["relay:ping"] })];
    const event = await made.operational.prepare("key_1", "relay:ping", {});
    expect([made.shelf.commits.length, made.shelf.added.length]).toEqual([0, 0]);
    await made.shelf.commit(event?.changes ?? []);
    event?.committed();
    expect(made.shelf.added).toHaveLength(1);
  });
});
