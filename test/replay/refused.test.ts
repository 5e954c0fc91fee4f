// A replay that finds nothing to send says why, and what to do instead.
import { expect, it } from "vitest";
import type { Problem } from "../../core/model/problem.ts";
import { createRecipients } from "../../core/records/recipients.ts";
import { createReplay, type ReplayEventOptions } from "../../core/replay/replay.ts";
import { replied, testPath } from "../support/path.ts";

const HOUR = 3_600_000;
const ACTOR = { sub: "tester" };

it("a replay that finds nothing to send says why, and names the way that there is", async () => {
  await using test = await testPath({ retry: { firstDelayMs: HOUR, factor: 1 } });
  const create = async (events: readonly string[]): Promise<string> =>
    (await test.parts.subscriptions.create("key_1", { url: "https://receiver.example/hook", events }, ACTOR))
      .subscription.id;
  const sub = await create(["deposit:paid"]);
  const other = await create(["login:*"]);
  const refusal = (event: string, options?: ReplayEventOptions): Promise<string> =>
    test.parts.replay.event("key_1", event, options).then(
      () => "sent",
      ({ code, detail }: Problem) => `${code} ${detail}`,
    );
  test.answers = [replied(500), replied(200)];
  await test.start();

  const pending = await test.publish();
  await test.whenSent(1);
  await test.clock.advance(0);
  const now = "Its delivery is pending: make its next attempt now, or cancel it.";
  expect(await refusal(pending, { subscriptionId: sub })).toBe(`NOT_REPLAYABLE ${now}`);
  expect(await refusal(pending, { subscriptionId: sub, force: true })).toBe(`NOT_REPLAYABLE ${now}`);
  expect(await refusal(pending, { force: true })).toBe(
    "NOT_REPLAYABLE No delivery of this event to an active subscription has ended. Make the next attempt of pending ones now.",
  );
  expect(await refusal(pending)).toBe(
    "NOT_REPLAYABLE No delivery of this event to an active subscription has failed. Use force for delivered and cancelled ones.",
  );
  expect(await refusal(pending, { subscriptionId: other })).toBe(
    "NOT_REPLAYABLE The subscription does not want events of this type.",
  );

  const delivered = await test.publish();
  await test.whenSent(2);
  await test.clock.advance(0);
  expect(await refusal(delivered, { subscriptionId: sub })).toBe(
    "NOT_REPLAYABLE Its delivery is delivered. Use force to send it again.",
  );

  await test.parts.subscriptions.update("key_1", sub, { status: "disabled" }, ACTOR);
  expect(await refusal(delivered, { subscriptionId: sub, force: true })).toBe(
    "NOT_REPLAYABLE The subscription is not active. Enable it, and replay then.",
  );
});

it("a replay of an event that is erased at that moment says that it is not there", async () => {
  await using test = await testPath();
  const fields = { url: "https://receiver.example/hook", events: ["*"] };
  await test.parts.subscriptions.create("key_1", fields, ACTOR);
  const id = await test.publish();
  const { storage, clock, parts } = test;
  const erasing = {
    ...createRecipients(storage),
    slice: async () => {
      await parts.eventErasure.erase("key_1", id, []);
      return [];
    },
  };
  const replay = createReplay({
    storage,
    clock,
    subscriptionCache: parts.subscriptionCache,
    recipients: erasing,
    endings: parts.endings,
  });
  await expect(replay.event("key_1", id)).rejects.toMatchObject({ code: "NOT_FOUND" });
});
