// A receiver that asks for rest (Retry-After) gets it from every node, whichever of them heard it.
import { expect, it } from "vitest";
import { useTwoNodes } from "../support/two-nodes.ts";
import { replied, testPath, type TestPath } from "../support/path.ts";

const twoNodes = useTwoNodes();

/** Two nodes; the first has sent one event, whose receiver asked for ten minutes. */
async function rested(more: Parameters<typeof testPath>[0] = {}) {
  const { clock, one: storage, two } = await twoNodes();
  const one = await testPath({ ...more, clock, storage });
  const other = await testPath({ ...more, clock, storage: two });
  for (const { parts } of [one, other]) parts.cluster.listen();
  const sub = await one.open();
  one.answers = [replied(503, { retryAfter: "600" })];
  const event = await one.publish();
  await one.whenSent(1);
  await clock.advance(0);
  return { clock, one, other, sub, event };
}
const left = ({ parts }: TestPath, sub: string): number => parts.gates.leftMs(sub, "retry_after");

it("a node that did not hear it refuses a replay as well, and sends nothing", async () => {
  const { one, other, sub, event, clock } = await rested({ retry: { attempts: 1 } });
  await expect.poll(() => left(other, sub)).toBeGreaterThan(590_000);
  await one.parts.dispatcher.stop(0);
  await other.start();
  // As the breaker's own pause ends, or another replay lifts it.
  await other.storage.queue.pause(sub, 0);
  expect(await other.parts.replay.event("key_1", event)).toBe(1);
  await clock.advance(590_000);
  expect(other.sent).toHaveLength(0);
  await clock.advance(30_000);
  await other.whenSent(1);
  await one[Symbol.asyncDispose]();
  await other[Symbol.asyncDispose]();
});
