// The live feed: who begins to listen learns whether something happened just before.
import { describe, expect, it } from "vitest";
import { createFeed, type FeedMessage } from "../../core/history/live-feed.ts";
import { testClock } from "../support/clock.ts";

async function room() {
  const clock = testClock();
  const feed = createFeed(clock);
  await clock.advance(1_000);
  const heard = (keyId: string, since?: number): readonly string[] => {
    const messages: FeedMessage[] = [];
    feed.listen(keyId, (message) => messages.push(message), since)();
    return messages.map(({ event }) => event);
  };
  return { clock, feed, heard };
}

describe("who begins to listen", () => {
  it("hears that something happened on the key since a time, and not what happened before it or elsewhere", async () => {
    const { clock, feed, heard } = await room();
    const before = clock.now();
    await clock.advance(1);
    feed.changed("key_1", "sub_1");
    await clock.advance(1);
    expect(heard("key_1", before)).toEqual(["again"]);
    expect(heard("key_1", clock.now() - 1)).toEqual(["again"]);
    expect(heard("key_1", clock.now())).toEqual([]);
    expect(heard("key_2", before)).toEqual([]);
    expect(heard("key_1")).toEqual([]);
  });

  it("is told to read again when more happened since then than is noted, or the relay began later", async () => {
    const { clock, feed, heard } = await room();
    const before = clock.now();
    for (let i = 0; i < 1_023; i++) feed.changed("key_busy", "sub_1");
    expect(heard("key_1", before)).toEqual([]);
    feed.changed("key_busy", "sub_1");
    expect(heard("key_1", before)).toEqual(["again"]);
    await clock.advance(1);
    expect(heard("key_1", clock.now())).toEqual([]);
    expect(heard("key_1", before - 1_001)).toEqual(["again"]);
  });
});
