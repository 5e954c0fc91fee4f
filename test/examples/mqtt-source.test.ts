// The MQTT source against a real broker: the law of the source port, redelivery, and a broker that comes late.
import { once } from "node:events";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { Aedes } from "aedes";
import { connectAsync, type MqttClient } from "mqtt";
import { describe, expect, it } from "vitest";
import { mqttSource } from "../../examples/mqtt-source/mqtt-source.ts";
import type { Accept } from "../../core/ports/source.ts";
import { describeSource, testContext, type TestContext, type Upstream } from "../conformance/index.ts";

interface Broker extends AsyncDisposable {
  readonly url: string;
  /** Publishes with QoS 1. */
  publish(text: string): Promise<void>;
  /** How many messages the source has acknowledged. */
  acknowledged(): number;
  /** Resolves when the source has subscribed. */
  readonly subscribed: Promise<void>;
}

async function startBroker(port = 0): Promise<Broker> {
  const aedes = await Aedes.createBroker();
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket.on("close", () => sockets.delete(socket)));
    aedes.handle(socket);
  }).listen(port, "127.0.0.1");
  await once(server, "listening");
  const url = `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let acknowledged = 0;
  const subscribed = Promise.withResolvers<void>();
  aedes.on("ack", (_packet, { id }) => void (id === "relay-1" && acknowledged++));
  aedes.on("subscribe", () => subscribed.resolve());
  let publisher: Promise<MqttClient> | undefined;
  return {
    url,
    subscribed: subscribed.promise,
    acknowledged: () => acknowledged,
    async publish(text) {
      publisher ??= connectAsync(url, { clientId: "publisher" });
      await (await publisher).publishAsync("orders/1", text, { qos: 1 });
    },
    async [Symbol.asyncDispose]() {
      await (await publisher)?.endAsync(true);
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => aedes.close(resolve));
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

const pluginOf = (url: string) => mqttSource({ url, topic: "orders/#", clientId: "relay-1" });
const sum = (ctx: TestContext, begin: string): number =>
  [...ctx.figures].filter(([name]) => name.startsWith(begin)).reduce((total, [, value]) => total + value, 0);
const until = (holds: () => boolean) => expect.poll(holds, { timeout: 60_000, interval: 5 }).toBe(true);
const stored: Accept = async ({ publications }) =>
  publications.map((_, i) => ({
    id: `evt_${i}`,
    type: "a:b",
    keyId: "key_1",
    createdAt: "2026-01-01T00:00:00.000Z",
    deliveries: 0,
    duplicate: false,
  }));

describe("the law of the source port", () => {
  interface Bench {
    readonly broker: Broker;
    readonly ctx: TestContext;
  }
  const benches = new WeakMap<object, Bench>();

  /** Returns what the broker, or the operator who looks, has learnt since the message came. */
  async function learnt({ broker, ctx }: Bench, { acks, again }: { acks: number; again: number }): Promise<Upstream> {
    await until(() => broker.acknowledged() > acks || sum(ctx, "relay_source_mqtt_tried_again") > again);
    if (broker.acknowledged() === acks) return "later";
    return sum(ctx, "relay_source_mqtt_refused") > 0 ? "refused" : "acknowledged";
  }
  const now = ({ broker, ctx }: Bench) => ({
    acks: broker.acknowledged(),
    again: sum(ctx, "relay_source_mqtt_tried_again"),
  });

  describeSource(it, {
    async open() {
      const broker = await startBroker();
      const plugin = pluginOf(broker.url);
      const ctx = await testContext(plugin);
      const source = await plugin.setup(ctx);
      const bench: Bench = { broker, ctx };
      const under = {
        source,
        async publish(text: string): Promise<Upstream> {
          await broker.subscribed;
          const before = now(bench);
          await broker.publish(text);
          return await learnt(bench, before);
        },
        async [Symbol.asyncDispose]() {
          await source.stop();
          await broker[Symbol.asyncDispose]();
          await ctx[Symbol.asyncDispose]();
        },
      };
      benches.set(under, bench);
      return under;
    },
    async again(under) {
      const bench = benches.get(under) as Bench;
      const before = now(bench);
      await bench.ctx.clock.advance(2_000);
      return await learnt(bench, before);
    },
  });
});

describe("the MQTT source", () => {
  it("gets from the broker again what it had not acknowledged when it stopped", { timeout: 120_000 }, async () => {
    await using broker = await startBroker();
    const plugin = pluginOf(broker.url);
    await using ctx = await testContext(plugin);
    const first = await plugin.setup(ctx);
    await first.start(() => Promise.reject(new Error("broken")), { durability: "fsync" });
    await broker.subscribed;
    await broker.publish('{"id":"evt_1"}');
    await until(() => sum(ctx, "relay_source_mqtt_tried_again") > 0);
    await first.stop();
    expect(broker.acknowledged()).toBe(0);
    const texts: string[] = [];
    const second = await plugin.setup(ctx);
    await second.start(
      async (request) => {
        texts.push(...request.publications.map(({ text }) => text));
        return await stored(request);
      },
      { durability: "fsync" },
    );
    await until(() => broker.acknowledged() === 1);
    expect(texts).toEqual(['{"id":"evt_1"}']);
    await second.stop();
  });

  it("sets aside what can never be stored, and goes on", { timeout: 120_000 }, async () => {
    await using broker = await startBroker();
    const plugin = pluginOf(broker.url);
    await using ctx = await testContext(plugin);
    const source = await plugin.setup(ctx);
    const { Problem } = await import("../../core/model/problem.ts");
    await source.start(
      (request) =>
        request.publications[0]?.text === "poison"
          ? Promise.reject(new Problem("INVALID_JSON", "no JSON"))
          : stored(request),
      { durability: "fsync" },
    );
    await broker.subscribed;
    await broker.publish("poison");
    await broker.publish("{}");
    await until(() => broker.acknowledged() === 2);
    expect(JSON.parse((await ctx.storage.getItem("refused:0")) ?? "")).toMatchObject({
      topic: "orders/1",
      code: "INVALID_JSON",
      text: "poison",
    });
    await source.stop();
  });

  it("says that the broker is away, and names what is wrong with its options", async () => {
    const plugin = pluginOf("mqtt://127.0.0.1:1");
    await using ctx = await testContext(plugin);
    const source = await plugin.setup(ctx);
    await source.start(stored, { durability: "fsync" });
    expect(source.readiness?.()).toBe("no connection to the MQTT broker");
    await source.stop();
    expect(mqttSource({ url: "", topic: "", clientId: "x" }).problems?.map(({ path }) => path)).toEqual([
      "url",
      "topic",
    ]);
  });
});
