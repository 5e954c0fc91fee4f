// Sessions of a message source with its upstream, one after another.
import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { aborted } from "../../plugins/source/messages/connected.ts";
import { keepConnected } from "../../plugins/source/messages/sessions.ts";
import { testClock } from "../support/clock.ts";
import { until } from "../support/until.ts";

it("leaves nothing on the source's signal, however often upstream was away", async () => {
  const stopping = new AbortController();
  const clock = testClock();
  let sessions = 0;
  const kept = keepConnected({ stopping: stopping.signal, away: () => {} }, clock, async (signal) => {
    sessions++;
    void aborted(signal);
    throw new Error("away");
  });
  await until(async () => {
    await clock.advance(10_000);
    return sessions >= 50;
  });
  // One for the session or the wait that is under way.
  expect(getEventListeners(stopping.signal, "abort").length).toBeLessThanOrEqual(1);
  stopping.abort();
  await kept;
});

it("tells the session that the source stops, with its reason", async () => {
  const stopping = new AbortController();
  let reason: unknown;
  const kept = keepConnected({ stopping: stopping.signal, away: () => {} }, testClock(), async (signal) => {
    await aborted(signal);
    reason = signal.reason;
  });
  stopping.abort("enough");
  await kept;
  expect(reason).toBe("enough");
});
