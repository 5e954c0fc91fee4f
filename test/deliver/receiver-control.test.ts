// What a receiver says of its deliveries (`webhook-delivery`) is obeyed where the config says so, and nowhere else.
import { describe, expect, it } from "vitest";
import { judge } from "../../core/deliver/outcome.ts";
import { DEFAULT_RETRY } from "../../core/model/subscription.ts";
import type { Reply } from "../../core/ports/transport.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

const standing = { attempt: 1, retry: DEFAULT_RETRY, now: 1_800_000_000_000, random: 0, receiverControl: true };
const answer = (status: number, control?: string, retryAfter?: string): Reply => ({
  kind: "response",
  status,
  ...(control !== undefined && { control }),
  ...(retryAfter !== undefined && { retryAfter }),
  excerpt: new Uint8Array(),
  truncated: false,
});
const OBEYS = { delivery: { receiverControl: true }, retry: { attempts: 3 } } as const;
const disable = replied(500, { control: "disable" });

const told = (test: TestPath) => test.sent.filter(({ headers }) => headers["X-Relay-Event"]?.startsWith("relay:"));
const reasons = (test: TestPath) =>
  told(test).map(({ headers, body }) => [
    headers["X-Relay-Event"],
    (JSON.parse(Buffer.from(body).toString()) as { data: { reason: string } }).data.reason,
  ]);

describe("an answer with webhook-delivery", () => {
  it.each([200, 302, 400, 429, 500])("changes nothing unless the config allows it: %i", (status) => {
    for (const control of ["disable", "abort-message"]) {
      const { receiverControl: _, ...off } = standing;
      for (const asked of [off, { ...off, receiverControl: false }])
        expect(judge(answer(status, control), asked)).toEqual(judge(answer(status), asked));
    }
  });

  it("ends the delivery, and asks for the subscription's end, whatever its case and the blanks around it", () => {
    for (const control of ["disable", " Disable\t"]) {
      expect(judge(answer(500, control), standing)).toEqual({ kind: "disabled" });
      expect(judge(answer(204, control), standing)).toEqual({ kind: "delivered", disables: true });
    }
    expect(judge(answer(400, "ABORT-Message"), standing)).toEqual({ kind: "aborted" });
    expect(judge(answer(400, "abort-message"), { ...standing, attempt: 5 })).toEqual({ kind: "aborted" });
  });

  it("stops no success, loses no pause, and is read where it says something else as if it were not there", () => {
    expect(judge(answer(200, "abort-message"), standing)).toEqual({ kind: "delivered" });
    expect(judge(answer(410, "abort-message"), standing)).toEqual({ kind: "gone" });
    expect(judge(answer(503, "abort-message", "60"), standing)).toEqual({ kind: "aborted", pauseMs: 60_000 });
    for (const odd of ["", "disabled", "disable, abort-message", "abort"])
      expect(judge(answer(500, odd), standing)).toEqual(judge(answer(500), standing));
  });
});

describe("a receiver that controls its deliveries", () => {
  it("disables its subscription by a failure: shown in the delivery, the subscription, the audit and the notices", async () => {
    await using test = await testPath(OBEYS);
    await test.subscribe(["relay:*"]);
    test.answers = [disable];
    const sub = await test.open();
    const id = await test.publish();
    await test.whenSent(3);
    await test.clock.advance(3_600_000);
    const shown = await test.parts.history.event("key_1", id);
    expect(shown?.deliveries.map(({ delivery }) => delivery)).toMatchObject([
      { status: "failed", reason: "receiver_disabled", attempts: [{ number: 1, statusCode: 500 }] },
    ]);
    expect(await test.parts.subscriptionCache.get("key_1", sub)).toMatchObject({
      status: "disabled",
      disabledReason: "receiver_disabled",
    });
    expect(reasons(test).toSorted()).toEqual([
      ["relay:delivery.failed", "receiver_disabled"],
      ["relay:subscription.disabled", "receiver_disabled"],
      ["relay:subscription.failing", "receiver_disabled"],
    ]);
    const audit = await test.storage.range("audit:");
    expect(audit.map(({ value }) => value).join("\n")).toMatch(/"subscription.disabled".*"receiver_disabled"/);
  });

  it("disables it by a success as well, which stays one", async () => {
    await using test = await testPath(OBEYS);
    test.answers = [replied(204, { control: "disable" })];
    const sub = await test.open();
    const id = await test.publish();
    await test.answered(1);
    expect(await test.status(id)).toBe("delivered");
    expect(await test.parts.subscriptionCache.get("key_1", sub)).toMatchObject({ disabledReason: "receiver_disabled" });
  });

  it("gives up one delivery: it has failed after one attempt, the subscription goes on, and the job replays it not", async () => {
    await using test = await testPath(OBEYS);
    test.answers = [replied(422, { control: "abort-message" })];
    const sub = await test.open();
    const id = await test.publish();
    await test.answered(1);
    await test.clock.advance(3_600_000);
    expect(test.sent).toHaveLength(1);
    expect(await test.status(id)).toBe("failed");
    expect(await test.parts.subscriptionCache.get("key_1", sub)).toMatchObject({ status: "active" });
    expect(await test.parts.replay.event("key_1", id)).toBe(1);
    await test.answered(2);
    expect(await test.status(id)).toBe("delivered");
  });

  it("is retried like any other while the config says nothing", async () => {
    await using test = await testPath({ retry: { attempts: 2 } });
    const id = await test.deliver(disable);
    await test.clock.advance(60_000);
    await test.answered(2);
    expect(await test.status(id)).toBe("delivered");
  });
});
