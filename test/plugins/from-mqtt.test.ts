// MQTT as a source, against a real mosquitto that is killed and started again.
import { expect, it } from "vitest";
import { fromMqtt } from "../../plugins/source/mqtt.ts";
import type { FromMqttOptions } from "../../plugins/source/mqtt/session.ts";
import { paid } from "../support/intake.ts";
import { describeMessageSource, hasty } from "../support/message-laws.ts";
import { openSource } from "../support/message-plugin.ts";
import { needs } from "../support/needs.ts";
import { pacedClock } from "../support/paced-clock.ts";
import { until } from "../support/until.ts";
import { mqttUpstream, type MqttUpstream } from "../support/upstreams/mqtt.ts";

const fsync = { durability: "fsync" } as const;
const event = (data: unknown): string => JSON.stringify(paid({ data }));

describeMessageSource({
  name: "MQTT",
  missing: needs("mosquitto"),
  start: mqttUpstream,
  differences: () => ({
    firstId: (topic) => new RegExp(`^${topic}-[0-9a-f]{40}$`),
    cloudPrefix: "",
    // Mosquitto closes a connection that publishes what it may not, so that what /readyz says does not stand still.
    stopsWithinMs: 20_000,
  }),
  more: ownLaws,
});

function ownLaws(mqtt: () => MqttUpstream): void {
  async function started(given: Partial<FromMqttOptions>, gate = Promise.resolve()) {
    const url = `mqtt://127.0.0.1:${mqtt().port}`;
    const made = await openSource(fromMqtt({ url, topic: "t", clientId: "c", ...given }), { clock: pacedClock(hasty) });
    await made.source.start(async (request) => (await gate, made.desk.intake.accept(request)), fsync);
    // The session is there, and keeps what comes from now on.
    const clientId = given.clientId ?? "c";
    await until(() => mqtt().subscribed.has(clientId));
    return { ...made, [Symbol.asyncDispose]: () => made.source.stop() };
  }
  const publish = (topic: string, text: string, qos: 1 | 2 = 1) => mqtt().client.publishAsync(topic, text, { qos });

  it("takes messages of quality 2, through a filter, each under one id", async () => {
    await mqtt().subscribe("two", "shop/+/orders", 2);
    for (let i = 0; i < 50; i++) await publish(`shop/${i % 3}/orders`, event(i), 2);
    await using made = await started({ topic: "shop/+/orders", clientId: "two", qos: 2 });
    await until(() => made.desk.told.length === 50);
    await made.source.stop();
    // What the broker had not read of the acknowledgements comes again, and is known by its id.
    await using again = await started({ topic: "shop/+/orders", clientId: "two", qos: 2 });
    await publish("shop/9/orders", event(99), 2);
    await until(() => again.desk.told.some(({ body }) => body.includes('"data":99')));
    const ids = [...made.desk.told, ...again.desk.told].map(({ id }) => id);
    expect(new Set(ids).size).toBe(51);
  });

  it("shares the messages of a group among its members, and loses none", async () => {
    const both = ["one", "other"].map((clientId) => started({ topic: "shared/#", clientId, group: "relays" }));
    await using one = await (both[0] as ReturnType<typeof started>);
    await using other = await (both[1] as ReturnType<typeof started>);
    for (let i = 0; i < 40; i++) await publish(`shared/${i}`, event(i));
    await until(() => one.desk.told.length + other.desk.told.length === 40);
    expect(one.desk.told.length).toBeGreaterThan(0);
    expect(other.desk.told.length).toBeGreaterThan(0);
  });

  it("acknowledges nothing before it is stored, and takes signs of life meanwhile", async () => {
    const topic = await mqtt().make();
    const gate = Promise.withResolvers<void>();
    await using made = await started(mqtt().options(topic) as never, gate.promise);
    await mqtt().send(topic, [event(1), event(2)]);
    await until(() => made.metrics.shown.get("source_lag_seconds mqtt") !== undefined);
    // Longer than a broker waits for a client that is silent, which it is where one message holds up all that comes behind.
    await new Promise((soon) => void setTimeout(soon, 17_000));
    expect(made.source.readiness?.()).toBeUndefined();
    expect(await mqtt().left(topic)).toBe(2);
    gate.resolve();
    await until(async () => (await mqtt().left(topic)) === 0);
    expect(made.desk.told).toHaveLength(2);
  });

  it("takes readings that are alike, one after the other, for events of their own", async () => {
    await using made = await started({ topic: "alike", clientId: "alike" });
    for (let i = 0; i < 3; i++) await publish("alike", event("the same"));
    await until(() => made.desk.told.length === 3);
    expect(new Set(made.desk.told.map(({ id }) => id)).size).toBe(3);
  });

  it("keeps a message without a valid event itself where no topic is named for it", async () => {
    await using made = await started({ topic: "bad", clientId: "bad" });
    await publish("bad", "{");
    await until(() => made.store.rows.size === 1);
    expect(JSON.parse([...made.store.rows.values()][0] ?? "")).toMatchObject({ code: "INVALID_JSON", subject: "bad" });
  });

  it("speaks MQTT 3.1.1", async () => {
    await using made = await started({ topic: "old", clientId: "old", version: "3.1.1", maxInFlight: 3 });
    for (let i = 0; i < 30; i++) await publish("old", event(i));
    await until(() => made.desk.told.length === 30);
  });
}
