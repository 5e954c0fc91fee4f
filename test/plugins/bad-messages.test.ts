// Messages that can never be stored: each is counted and named once.
import { expect, it } from "vitest";
import { Problem } from "../../core/model/problem.ts";
import { createBadMessages } from "../../plugins/source/messages/bad-messages.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";

it("counts a message once that comes again while it is being set aside, and anew after it was", () => {
  const [log, metrics] = [quietLog(), quietMetrics()];
  const bad = createBadMessages({ log, metrics }, "nats");
  const message = { payload: "no JSON", subject: "paid", place: "orders-17" };
  const error = new Problem("VALIDATION_FAILED", "no JSON");
  const fates = [bad.fateOf(message, error), bad.fateOf(message, error)];
  expect(fates.map(({ kind }) => kind)).toEqual(["poison", "poison"]);
  expect(metrics.counted.get("source_dead_lettered nats")).toBe(1);
  expect(log.lines).toHaveLength(1);
  for (const fate of fates) bad.settled([{ message, fate }], new Set());
  bad.fateOf(message, error);
  expect(metrics.counted.get("source_dead_lettered nats")).toBe(2);
});
