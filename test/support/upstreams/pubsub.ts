/** Pub/Sub as an upstream: a topic with a subscription of its name, whose dead-letter topic has a subscription too. */
import type { PubSub } from "@google-cloud/pubsub";
import { callPubSub } from "../../../plugins/brokers/pubsub.ts";
import { fromPubSub } from "../../../plugins/source/pubsub.ts";
import type { Upstream } from "../message-laws.ts";
import { PROJECT, startPubSub } from "../pubsub.ts";

/** More than a message is given back when its relay is killed. */
const ATTEMPTS = 20;

export interface PubSubUpstream extends Upstream {
  readonly client: PubSub;
  readonly fake: Awaited<ReturnType<typeof startPubSub>>;
  /** Makes the subscription of a topic that is there. */
  add(name: string, more?: object): Promise<unknown>;
  drop(name: string): Promise<unknown>;
}

interface Pulled {
  readonly receivedMessages?: readonly {
    readonly ackId: string;
    readonly message: { readonly messageId: string; readonly data: Uint8Array };
  }[];
}

export async function pubSubUpstream(): Promise<PubSubUpstream> {
  const fake = await startPubSub();
  const { client } = fake;
  let count = 0;
  const policy = (name: string) => ({
    deadLetterTopic: `projects/${PROJECT}/topics/${name}-dead`,
    maxDeliveryAttempts: ATTEMPTS,
  });
  const add = (name: string, more: object = {}) =>
    client.createSubscription(name, name, { ackDeadlineSeconds: 10, deadLetterPolicy: policy(name), ...more });
  return {
    server: fake,
    port: fake.port,
    client,
    fake,
    add,
    drop: (name) => client.subscription(name).delete(),
    from: fromPubSub,
    factory: "fromPubSub",
    async make() {
      const name = `orders${++count}`;
      for (const topic of [`${name}-dead`, name]) await client.createTopic(topic);
      await client.createSubscription(`${name}-dead`, `${name}-dead`);
      await add(name);
      return name;
    },
    options: (subscription, maxInFlight, port = fake.port) => ({
      ...{ subscription, projectId: PROJECT, apiEndpoint: `127.0.0.1:${port}` },
      ...(maxInFlight !== undefined && { maxInFlight }),
    }),
    async send(name, payloads, attributes = {}) {
      const topic = client.topic(name, { batching: { maxMessages: 500, maxMilliseconds: 1 } });
      await Promise.all(payloads.map((text) => topic.publishMessage({ data: Buffer.from(text), attributes })));
    },
    // What is forwarded to the dead-letter topic was handed out so often, and stays in the fake.
    left: async (name) =>
      (await fake.told(name)).filter(({ Acks, Deliveries }) => Acks === 0 && Deliveries < ATTEMPTS).length,
    async dead(name) {
      const subscription = client.subscription(`${name}-dead`).name;
      const how = { subscription, maxMessages: 100, returnImmediately: true };
      const { receivedMessages = [] } = (await callPubSub(client, "SubscriberClient", "pull", how)) as Pulled;
      const ackIds = receivedMessages.map(({ ackId }) => ackId);
      const again = { subscription, ackIds, ackDeadlineSeconds: 0 };
      if (ackIds.length > 0) await callPubSub(client, "SubscriberClient", "modifyAckDeadline", again);
      const byId = new Map(receivedMessages.map(({ message }) => [message.messageId, message.data]));
      return [...byId.values()].map((data) => ({ payload: Buffer.from(data).toString(), code: undefined }));
    },
    async refuseDead(name) {
      const set = (deadLetterPolicy: object | null) =>
        client.subscription(name).setMetadata({ deadLetterPolicy: deadLetterPolicy as never });
      await set(null);
      return () => set(policy(name));
    },
    [Symbol.asyncDispose]: () => fake[Symbol.asyncDispose](),
  };
}
