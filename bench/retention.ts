// How fast retention removes delivered events beside how fast they are published: alone, and both at once, in one run.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { sqlite } from "../plugins/storage/sqlite.ts";
import { context } from "./queue/surroundings.ts";
import { fill, leftOf } from "./retention/fill.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { CONNECTIONS, KEY_ID, nowMs } from "./throughput/event.ts";
import type { FromReceiver, PublishReply, PublishRequest } from "./throughput/messages.ts";
import { own } from "./throughput/process.ts";
import { prepare, type RelayUnderTest } from "./throughput/relay.ts";
import { openWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    /** Of each measurement. */
    seconds: { type: "string", default: "8" },
    /** Events that wait to be removed. */
    events: { type: "string", default: "300000" },
  },
});
const seconds = within(options.seconds, 2, 60, 8);
const events = within(options.events, 1_000, 5_000_000, 300_000);
/** Must be reached: removed beside published, each at its best. */
const RATIO = 2;
/** Every second, so that a measurement need not wait for a minute. */
const JOBS = `jobs: [relay.retention({ schedule: "* * * * * *", deliveredAfterMs: 86_400_000 })],`;

async function measure(folder: string) {
  const world = await openWorld({ folder });
  const { receiver, publisher, ca } = world;
  const open = () => sqlite().setup(context(join(folder, "data")));

  async function publish(relay: RelayUnderTest, forSeconds: number): Promise<number> {
    await receiver.ask({ kind: "reset" });
    const token = await relay.publishToken();
    const request: PublishRequest = { port: relay.port, token, seconds: forSeconds };
    const { accepted, from } = await publisher.ask<PublishReply>(request);
    const { at } = await receiver.ask<Extract<FromReceiver, { kind: "reached" }>>({ kind: "await", count: accepted });
    return (accepted / (at - from)) * 1_000;
  }

  /** Runs a relay whose job removes, for a while. @returns how many a second, and what `beside` came to meanwhile */
  async function removing(beside: (relay: RelayUnderTest) => Promise<number>) {
    const relay = await prepare({ folder, ca, config: JOBS });
    const before = await open();
    const had = await leftOf(before, KEY_ID);
    await before.dispose();
    const running = await relay.start();
    own(running.child);
    // The job begins with the next full second.
    const from = Math.ceil(Date.now() / 1_000) * 1_000;
    const published = await beside(relay);
    const tookMs = Date.now() - from;
    await running.stop();
    const after = await open();
    const left = await leftOf(after, KEY_ID);
    await after.dispose();
    return { removed: ((had - left) / tookMs) * 1_000, published, all: left === 0 };
  }

  await publish(world.relay, 3);
  const published = await publish(world.relay, seconds);
  await world.running.stop();
  say(`published and delivered alone: ${round(published)}/s; filling with ${events.toLocaleString("en")} old events …`);
  const storage = await open();
  await fill(storage, KEY_ID, events);
  await storage.dispose();
  const both = await removing((relay) => publish(relay, seconds));
  say(`both at once: ${round(both.published)}/s published, ${round(both.removed)}/s removed`);
  const began = nowMs();
  const alone = await removing(async () => {
    await new Promise((done) => setTimeout(done, seconds * 1_000));
    return 0;
  });
  say(`removed alone: ${round(alone.removed)}/s in ${round((nowMs() - began) / 1_000, 1)} s`);
  if (alone.all || both.all) say("everything was removed before the time was over: give more --events");
  return {
    publishedPerSecond: round(published),
    removedPerSecond: round(alone.removed),
    ratio: round(alone.removed / published, 2),
    bothPublishedPerSecond: round(both.published),
    bothRemovedPerSecond: round(both.removed),
    bothRatio: round(both.removed / both.published, 2),
  };
}

await benchRun({
  longestS: 600 + seconds * 10 + events / 1_000,
  json: options.json,
  measure,
  met: ({ ratio }) => ratio >= RATIO,
  print: (result) =>
    console.log(`sqlite(), ${CONNECTIONS} connections, ${events.toLocaleString("en")} delivered events to remove
published and delivered, events/s            ${result.publishedPerSecond}
removed, events/s                            ${result.removedPerSecond}
ratio (at least ${RATIO})                          ${result.ratio}
both at once, published and removed          ${result.bothPublishedPerSecond}, ${result.bothRemovedPerSecond} (ratio ${result.bothRatio})`),
});
