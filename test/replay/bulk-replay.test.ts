/** A replay of all that failed: many deliveries share a commit, and no commit grows with how many there are. */
import { expect, it } from "vitest";
import { replied, testPath } from "../support/path.ts";

const FAILED = 450;

it("makes few commits, and none larger than a page of deliveries", async () => {
  await using test = await testPath({ retry: { attempts: 1 } });
  test.otherwise = replied(500);
  const sub = await test.subscribe();
  await test.start();
  for (let i = 0; i < FAILED; i++) await test.publish();
  await test.whenSent(FAILED);
  await test.clock.advance(0);
  const subscription = (await test.parts.subscriptionCache.get("key_1", sub))!;
  const commits: number[] = [];
  const { commit } = test.storage;
  test.storage.commit = (changes) => {
    commits.push(changes.length);
    return commit(changes);
  };
  expect(await test.parts.replay.failed({ subscription, limit: 10_000, perSecond: 0.001 })).toEqual({
    matched: FAILED,
    replayed: FAILED,
    more: false,
  });
  expect(commits.length).toBeLessThan(10);
  expect(Math.max(...commits)).toBeLessThan(200 * 8);
});
