// Pub/Sub as a source, against the fake of Google's Go module, whose door is shut and opened again.
import { expect, it } from "vitest";
import { fromPubSub } from "../../plugins/source/pubsub.ts";
import { paid } from "../support/intake.ts";
import { describeMessageSource, hasty } from "../support/message-laws.ts";
import { openSource } from "../support/message-plugin.ts";
import { pacedClock } from "../support/paced-clock.ts";
import { needsPubSub } from "../support/pubsub.ts";
import { until } from "../support/until.ts";
import { pubSubUpstream, type PubSubUpstream } from "../support/upstreams/pubsub.ts";

const fsync = { durability: "fsync" } as const;
const event = (data: unknown): string => JSON.stringify(paid({ data }));

describeMessageSource({
  name: "Pub/Sub",
  missing: needsPubSub(),
  start: pubSubUpstream,
  differences: (pubsub) => ({
    firstId: (subscription) => new RegExp(`^${subscription}-m\\d+$`),
    cloudPrefix: "ce-",
    movesDead: true,
    unordered: true,
    deadSays: /^2 messages cannot be set aside: the subscription orders\d+ has no dead-letter topic/,
    remake: { drop: (name) => pubsub().drop(name), add: (name) => pubsub().add(name) },
    missingSays: /^NOT_FOUND: /,
    stopsWithinMs: 20_000,
    // The fake hands out a few messages each 10 ms.
    total: 600,
  }),
  more: ownLaws,
});

function ownLaws(pubsub: () => PubSubUpstream): void {
  async function started(name: string, gate = Promise.resolve(), more: object = {}) {
    const plugin = fromPubSub({ ...pubsub().options(name), ...more } as never);
    const made = await openSource(plugin, { clock: pacedClock(hasty) });
    const groups: number[] = [];
    await made.source.start(async (request) => {
      groups.push(request.publications.length);
      await gate;
      return made.desk.intake.accept(request);
    }, fsync);
    return { ...made, groups, [Symbol.asyncDispose]: () => made.source.stop() };
  }
  const modacks = async (name: string) => (await pubsub().fake.told(name)).map(({ Deliveries }) => Deliveries);

  it("extends the deadline of messages for as long as they cannot be stored", { timeout: 60_000 }, async () => {
    const name = await pubsub().make();
    await pubsub().send(name, [event(1)]);
    const gate = Promise.withResolvers<void>();
    await using made = await started(name, gate.promise);
    await until(() => made.groups.length === 1);
    const end = performance.now() + 9_000;
    while (performance.now() < end) {
      expect(await modacks(name)).toEqual([1]);
      await new Promise((turned) => setTimeout(turned, 200));
    }
    gate.resolve();
    await until(async () => made.desk.told.length === 1 && (await pubsub().left(name)) === 0);
  });

  it("has no more messages at once than it may hold", async () => {
    const name = await pubsub().make();
    await pubsub().send(
      name,
      Array.from({ length: 20 }, (_, i) => event(i)),
    );
    const gate = Promise.withResolvers<void>();
    await using made = await started(name, gate.promise, { maxInFlight: 5 });
    await until(() => made.groups.length === 1);
    await until(async () => (await modacks(name)).filter((times) => times > 0).length >= 5);
    gate.resolve();
    await until(async () => made.desk.told.length === 20 && (await pubsub().left(name)) === 0);
    expect((made.groups[0] ?? 0) + (made.groups[1] ?? 0)).toBeLessThanOrEqual(5);
  });

  it("keeps the order of an ordering key, and makes it the key of messages", async () => {
    await pubsub().client.createTopic("ordered");
    await pubsub().client.createSubscription("ordered", "ordered", { enableMessageOrdering: true });
    const topic = pubsub().client.topic("ordered", { messageOrdering: true });
    for (let i = 0; i < 20; i++) await topic.publishMessage({ data: Buffer.from(event(i)), orderingKey: "g" });
    await using made = await started("ordered", undefined, {
      map: ({ key, text }: { key: string; text: string }) => ({
        ...(JSON.parse(text) as object),
        type: `group:${key}`,
      }),
    });
    await until(async () => made.desk.told.length === 20 && (await pubsub().left("ordered")) === 0);
    const told = made.desk.told.map(({ body }) => (JSON.parse(body) as { readonly data: number }).data);
    expect(told).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(made.desk.told[0]).toMatchObject({ type: "group:g", id: expect.stringMatching(/^ordered-/) });
  });

  it("acknowledges exactly once where the subscription wants that, and reads it by its whole name", async () => {
    await pubsub().client.createTopic("once");
    await pubsub().client.createSubscription("once", "once", { enableExactlyOnceDelivery: true });
    await pubsub().send("once", [event(1), event(2)]);
    const { name } = pubsub().client.subscription("once");
    await using made = await started(name);
    await until(async () => made.desk.told.length === 2 && (await pubsub().left("once")) === 0);
    expect((await pubsub().fake.told("once")).map(({ Acks }) => Acks)).toEqual([1, 1]);
    expect(made.log.lines.filter(({ message }) => message.startsWith("upstream was not told"))).toEqual([]);
  });

  it("gives back what it has not stored when it stops", async () => {
    const name = await pubsub().make();
    await pubsub().send(name, [event(1)]);
    const first = await openSource(fromPubSub(pubsub().options(name) as never), { clock: pacedClock(hasty) });
    const called = Promise.withResolvers<void>();
    await first.source.start(async () => (called.resolve(), Promise.reject(new Error("away"))), fsync);
    await called.promise;
    await first.source.stop();
    await using second = await started(name);
    await until(async () => second.desk.told.length === 1 && (await pubsub().left(name)) === 0);
    // It did not come again and again while the first one stopped.
    expect(await modacks(name)).toEqual([2]);
  });
}
