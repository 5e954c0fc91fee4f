/** SQS, as moto plays it, behind a door that is shut. */
import { toSqs } from "../../../plugins/transport/sqs.ts";
import { atLeast, type Arrived, type BusHarness, type FarBus } from "../bus-laws.ts";
import { AWS_LOGIN, needsMoto, startMoto, type Moto } from "../moto.ts";
import { sqsClient } from "../upstreams/sqs.ts";

export interface FarSqs extends FarBus {
  readonly server: Moto;
  readonly client: ReturnType<typeof sqsClient>;
}

export const sqsBus: BusHarness<FarSqs> = {
  system: "SQS",
  missing: needsMoto(),
  make: toSqs,
  options: (at) => ({ name: "bus", endpoint: `http://${at}`, ...AWS_LOGIN }),
  everyOption: {
    ...{ name: "bus", endpoint: "https://sqs.example.com", region: "eu-central-1", key: "data.customer.id" },
    ...{ accessKeyId: "AKIA", secretAccessKey: { secretFrom: { env: "S" } }, tls: { caFile: "ca" } },
  },
  wrongOptions: [
    [{ endpoint: "ftp://:s3cret@x", region: "", key: "name" }, "key", "region", "endpoint"],
    [{ accessKeyId: "AKIA" }, "secretAccessKey"],
    [{ tls: { certFile: "c" } }, "tls.certFile"],
  ],
  urls: {
    rule: "the name of a queue",
    right: ["deposits", "a_b-C0", "deposits.fifo"],
    wrong: ["", "a/b", "a.b", "a.fifo.fifo", "a b", "http://x", "a?b", "x".repeat(81)],
  },
  place: /^200 queue \w+, message [0-9a-f-]{36}$/,
  refused: ["sqs://bus/nobody", /^error the queue nobody is not there$/],
  opens: "sqs://bus/opened",
  async start() {
    const server = await startMoto();
    const client = sqsClient(server.endpoint);
    await client.createQueue({ QueueName: "opened" });
    const read = new Map<string, Map<string, Arrived>>();
    async function arrived(queue: string): Promise<readonly Arrived[]> {
      const { QueueUrl } = await client.getQueueUrl({ QueueName: queue });
      const found = read.get(queue) ?? new Map<string, Arrived>();
      read.set(queue, found);
      for (;;) {
        const how = { QueueUrl, MaxNumberOfMessages: 10, MessageAttributeNames: ["All"], VisibilityTimeout: 600 };
        const { Messages: some = [] } = await client.receiveMessage(how);
        for (const { MessageId = "", Body = "", MessageAttributes: of = {} } of some)
          found.set(MessageId, {
            headers: JSON.parse(of["headers"]?.StringValue ?? "{}") as Record<string, string>,
            messageId: of["messageId"]?.StringValue ?? "",
            body: Buffer.from(Body, of["encoding"]?.StringValue === "base64" ? "base64" : "utf8"),
          });
        if (some.length === 0) return [...found.values()];
      }
    }
    return {
      at: `127.0.0.1:${server.port}`,
      server,
      client,
      async destination(name) {
        await client.createQueue({ QueueName: name });
        return `sqs://bus/${name}`;
      },
      arrived: (url, least) => atLeast(least, () => arrived(url.slice("sqs://bus/".length))),
      async [Symbol.asyncDispose]() {
        client.destroy();
        await server[Symbol.asyncDispose]();
      },
    };
  },
};
