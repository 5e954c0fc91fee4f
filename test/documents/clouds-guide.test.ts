// docs/clouds.md: its configs, carried out against the systems that they name.
import { readFileSync } from "node:fs";
import { runInThisContext } from "node:vm";
import { describe, expect, it } from "vitest";
import * as door from "../../config/index.ts";
import { sendTo, setUp, textOf, whenReady } from "../support/bus-bench.ts";
import { mqttBus } from "../support/buses/mqtt.ts";
import { pubSubBus } from "../support/buses/pubsub.ts";
import { s3Bus } from "../support/buses/s3.ts";
import { sqsBus } from "../support/buses/sqs.ts";
import { openSource } from "../support/message-plugin.ts";
import { AWS_LOGIN, needsMoto } from "../support/moto.ts";
import { needs } from "../support/needs.ts";
import { needsPubSub, PROJECT } from "../support/pubsub.ts";
import { until } from "../support/until.ts";

const page = readFileSync(new URL("../../docs/clouds.md", import.meta.url), "utf8");

/** Returns the config of a section, with other words in the place of those that name a system which is not here. */
function configOf(heading: string, ...changes: readonly (readonly [string, string])[]): door.RelayConfig {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? "";
  let [, text = ""] = /^```ts config\n([\s\S]*?)^```/m.exec(section) ?? [];
  for (const [from, to] of changes) {
    expect(text).toContain(from);
    text = text.replace(from, to);
  }
  const body = text
    .replace(/import (\{.*\}) from "relaybox";/, "const $1 = relaybox;")
    .replace("export default", "return");
  return (runInThisContext(`(relaybox) => { ${body} }`) as (given: typeof door) => door.RelayConfig)(door);
}
/** The message of a section's command. */
const messageOf = (heading: string): string =>
  /'(\{"type".*\})'/.exec(page.slice(page.indexOf(`## ${heading}\n`)))?.[1] ?? "";

const login = (endpoint: string): string =>
  `endpoint: "${endpoint}", accessKeyId: "${AWS_LOGIN.accessKeyId}", secretAccessKey: "${AWS_LOGIN.secretAccessKey}"`;

async function reads(config: door.RelayConfig, send: () => Promise<unknown>): Promise<void> {
  const made = await openSource(config.sources?.[1] as never);
  await made.source.start(made.desk.intake.accept, { durability: "fsync" });
  await send();
  await until(() => made.desk.told.length === 1);
  expect(made.desk.told[0]).toMatchObject({ type: "order.paid", keyId: "key_1" });
  await made.source.stop();
}

async function delivers(config: door.RelayConfig, url: string): Promise<void> {
  const transport = await setUp(config.transports?.[1] as never);
  await whenReady(transport);
  expect(textOf(await sendTo(transport, url))).toMatch(/^200/);
  await transport.dispose();
}

describe.skipIf(needsMoto() !== undefined)(`the guide to Amazon (${needsMoto() ?? "moto"})`, () => {
  it("takes the message of its command from SQS, and delivers to SQS", async () => {
    await using far = await sqsBus.start();
    const region = 'region: "eu-central-1"';
    const here = [region, `${region}, ${login(far.server.endpoint)}`] as const;
    const { QueueUrl } = await far.client.createQueue({ QueueName: "orders" });
    const send = () => far.client.sendMessage({ QueueUrl, MessageBody: messageOf("From SQS") });
    await reads(configOf("From SQS", here), send);
    await delivers(configOf("To SQS", here), await far.destination("deposits"));
  });

  it("archives in S3", async () => {
    await using far = await s3Bus.start();
    const config = configOf(
      "To S3",
      ['bucket: "my-events"', 'bucket: "archive"'],
      ["https://minio.example.com:9000", far.server.endpoint],
    );
    await delivers(config, "s3://archive/deposits/paid");
    expect(await far.objects("deposits/paid")).toHaveLength(1);
  });
});

it.skipIf(needsPubSub() !== undefined)(
  `the guide to Pub/Sub takes the message of its command, and delivers (${needsPubSub() ?? "the fake"})`,
  async () => {
    await using far = await pubSubBus.start();
    const here = ['projectId: "my-project"', `projectId: "${PROJECT}", apiEndpoint: "${far.at}"`] as const;
    const { client } = far.server;
    await client.createTopic("orders");
    await client.createSubscription("orders", "relay");
    const data = Buffer.from(messageOf("From Pub/Sub"));
    await reads(configOf("From Pub/Sub", here), () => client.topic("orders").publishMessage({ data }));
    await far.destination("deposits");
    await delivers(configOf("To Pub/Sub", here), "pubsub://google/deposits");
  },
);

it.skipIf(needs("mosquitto") !== undefined)(
  "the guide to MQTT takes the message of its command, and delivers",
  async () => {
    await using far = await mqttBus.start();
    const here = ["mqtt://127.0.0.1:1883", `mqtt://${far.at}`] as const;
    const retained = { qos: 1, retain: true } as const;
    await reads(configOf("From MQTT", here), () =>
      far.client.publishAsync("orders/shop-1", messageOf("From MQTT"), retained),
    );
    await far.client.subscribeAsync("deposits/paid", { qos: 1 });
    await delivers(configOf("To MQTT", here), "mqtt://mqtt/deposits/paid");
  },
);
