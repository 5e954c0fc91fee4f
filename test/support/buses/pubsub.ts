/** Pub/Sub, as the fake of Google's Go module plays it, behind a door that is shut. */
import { toPubSub } from "../../../plugins/transport/pubsub.ts";
import { atLeast, type Arrived, type BusHarness, type FarBus } from "../bus-laws.ts";
import { needsPubSub, PROJECT, startPubSub } from "../pubsub.ts";

export interface FarPubSub extends FarBus {
  readonly server: Awaited<ReturnType<typeof startPubSub>>;
}

export const pubSubBus: BusHarness<FarPubSub> = {
  system: "Pub/Sub",
  missing: needsPubSub(),
  make: toPubSub,
  options: (at) => ({ name: "bus", projectId: PROJECT, apiEndpoint: at }),
  everyOption: {
    ...{ name: "bus", projectId: "my-project", apiEndpoint: "europe-west1-pubsub.googleapis.com:443" },
    ...{ credentials: { secretFrom: { file: "key.json" } }, key: "data.customer.id" },
  },
  wrongOptions: [
    [
      { projectId: "A", credentials: "", apiEndpoint: "http://x", key: "name" },
      ...["key", "projectId", "credentials", "apiEndpoint"],
    ],
  ],
  urls: {
    rule: "the name of a topic",
    right: ["deposits", "a_b-C0.~+x"],
    wrong: ["", "ab", "1abc", "a/b", "googly", "projects/p/topics/t", "a b c", "http://x", "abc?d", "x".repeat(256)],
  },
  place: /^200 topic \w+, message m\d+$/,
  refused: ["pubsub://bus/nobody", /^error the topic nobody is not there$/],
  opens: "pubsub://bus/opened",
  async start() {
    const server = await startPubSub();
    await server.client.createTopic("opened");
    return {
      at: `127.0.0.1:${server.port}`,
      server,
      async destination(name) {
        await server.client.createTopic(name);
        return `pubsub://bus/${name}`;
      },
      arrived: (url, least) =>
        atLeast(least, async () =>
          (await server.told(url.slice("pubsub://bus/".length))).map(({ Attributes, Data }): Arrived => {
            const { messageId = "", ...headers } = Attributes ?? {};
            return { headers, messageId, body: Buffer.from(Data ?? "", "base64") };
          }),
        ),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  },
};
