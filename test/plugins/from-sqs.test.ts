// SQS as a source, against moto's server, whose door is shut and opened again.
import { expect, it } from "vitest";
import { fromSqs } from "../../plugins/source/sqs.ts";
import { paid } from "../support/intake.ts";
import { describeMessageSource, hasty } from "../support/message-laws.ts";
import { openSource } from "../support/message-plugin.ts";
import { needsMoto } from "../support/moto.ts";
import { pacedClock } from "../support/paced-clock.ts";
import { until } from "../support/until.ts";
import { sqsUpstream, type SqsUpstream } from "../support/upstreams/sqs.ts";

const fsync = { durability: "fsync" } as const;
const event = (data: unknown): string => JSON.stringify(paid({ data }));

describeMessageSource({
  name: "SQS",
  missing: needsMoto(),
  start: sqsUpstream,
  differences: (sqs) => ({
    firstId: (queue) => new RegExp(`^${queue}-[0-9a-f-]{36}$`),
    cloudPrefix: "ce-",
    movesDead: true,
    deadSays: /^2 messages cannot be set aside: the queue orders\d+ has no redrive policy to a dead-letter queue/,
    waiting: (queue) => sqs().waiting(queue),
    remake: { drop: (queue) => sqs().drop(queue), add: (queue) => sqs().add(queue) },
    missingSays: /QueueDoesNotExist|NonExistentQueue/,
    stopsWithinMs: 20_000,
    // The time that moto takes for a message grows with those that it has.
    total: 300,
  }),
  more: ownLaws,
});

function ownLaws(sqs: () => SqsUpstream): void {
  async function started(queue: string, gate = Promise.resolve(), more: object = {}) {
    const made = await openSource(fromSqs({ ...sqs().options(queue), ...more } as never), { clock: pacedClock(hasty) });
    await made.source.start(async (request) => (await gate, made.desk.intake.accept(request)), fsync);
    return { ...made, [Symbol.asyncDispose]: () => made.source.stop() };
  }

  it("extends the visibility of messages for as long as they can be neither stored nor set aside", async () => {
    await sqs().add("slow", { VisibilityTimeout: "2" });
    await sqs().send("slow", [event(1), "{"]);
    const gate = Promise.withResolvers<void>();
    await using made = await started("slow", gate.promise);
    await until(async () => (await sqs().waiting("slow")) === 0);
    const end = performance.now() + 5_000;
    // Longer than a message is hidden by one call.
    while (performance.now() < end) expect(await sqs().waiting("slow")).toBe(0);
    gate.resolve();
    await until(async () => made.desk.told.length === 1 && (await sqs().left("slow")) === 1);
    expect(made.metrics.counted.get("source_redelivered sqs")).toBeUndefined();
  });

  it("keeps the order of a FIFO queue's groups, and makes a group its key", async () => {
    await sqs().add("orders.fifo", { FifoQueue: "true" });
    await sqs().send(
      "orders.fifo",
      Array.from({ length: 20 }, (_, i) => event(i)),
    );
    await using made = await started("orders.fifo", undefined, {
      map: ({ key, text }: { key: string; text: string }) => ({
        ...(JSON.parse(text) as object),
        type: `group:${key}`,
      }),
    });
    await until(async () => made.desk.told.length === 20 && (await sqs().left("orders.fifo")) === 0);
    const told = made.desk.told.map(({ body }) => (JSON.parse(body) as { readonly data: number }).data);
    expect(told).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(made.desk.told[0]).toMatchObject({ type: "group:g", id: expect.stringMatching(/^orders-/) });
  });

  it("gives back what it has not stored when it stops, and reads a queue by its URL", async () => {
    const queue = await sqs().make();
    await sqs().send(queue, [event(1)]);
    const first = await openSource(fromSqs(sqs().options(queue) as never), { clock: pacedClock(hasty) });
    const called = Promise.withResolvers<void>();
    await first.source.start(async () => (called.resolve(), Promise.reject(new Error("away"))), fsync);
    await called.promise;
    await first.source.stop();
    expect(await sqs().waiting(queue)).toBe(1);
    const { endpoint: _endpoint, ...rest } = sqs().options(sqs().url(queue)) as { readonly endpoint: string };
    const second = await openSource(fromSqs(rest as never), { clock: pacedClock(hasty) });
    await second.source.start(second.desk.intake.accept, fsync);
    await until(() => second.desk.told.length === 1);
    await second.source.stop();
  });
}
