/** SQS as an upstream: a queue with a dead-letter queue that its redrive policy names. */
import { ReceiveMessageCommand, SendMessageBatchCommand, SQS, type MessageAttributeValue } from "@aws-sdk/client-sqs";
import { fromSqs } from "../../../plugins/source/sqs.ts";
import type { Upstream } from "../message-laws.ts";
import { AWS_LOGIN, startMoto, type Moto } from "../moto.ts";

export interface SqsUpstream extends Upstream {
  readonly client: SQS;
  readonly moto: Moto;
  add(name: string, attributes?: Readonly<Record<string, string>>): Promise<unknown>;
  drop(name: string): Promise<unknown>;
  url(name: string): string;
  waiting(name: string): Promise<number>;
}

const ACCOUNT = "123456789012";

export const sqsClient = (endpoint: string): SQS =>
  new SQS({
    ...{ endpoint, region: AWS_LOGIN.region, maxAttempts: 10 },
    credentials: { accessKeyId: AWS_LOGIN.accessKeyId, secretAccessKey: AWS_LOGIN.secretAccessKey },
  });

export async function sqsUpstream(): Promise<SqsUpstream> {
  const moto = await startMoto();
  const client = sqsClient(moto.endpoint);
  let count = 0;
  const url = (name: string): string => `${moto.endpoint}/${ACCOUNT}/${name}`;
  const redriveTo = (name: string): string =>
    JSON.stringify({
      deadLetterTargetArn: `arn:aws:sqs:${AWS_LOGIN.region}:${ACCOUNT}:${name}-dead`,
      maxReceiveCount: 3,
    });
  const add = (name: string, attributes: Readonly<Record<string, string>> = {}) =>
    client.createQueue({ QueueName: name, Attributes: { VisibilityTimeout: "20", ...attributes } });
  const counts = async (name: string) => {
    const AttributeNames = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"] as const;
    const { Attributes = {} } = await client.getQueueAttributes({
      QueueUrl: url(name),
      AttributeNames: [...AttributeNames],
    });
    const [waiting, hidden] = AttributeNames.map((one) => Number(Attributes[one]));
    return { waiting: waiting ?? 0, hidden: hidden ?? 0 };
  };
  const redrive = (name: string, policy: string) =>
    client.setQueueAttributes({ QueueUrl: url(name), Attributes: { RedrivePolicy: policy } });
  return {
    server: moto,
    port: moto.port,
    client,
    moto,
    add,
    url,
    drop: (name) => client.deleteQueue({ QueueUrl: url(name) }),
    from: fromSqs,
    factory: "fromSqs",
    async make() {
      const name = `orders${++count}`;
      await add(`${name}-dead`);
      await add(name, { RedrivePolicy: redriveTo(name) });
      return name;
    },
    options: (queue, maxInFlight, port = moto.port) => ({
      ...{ queue, endpoint: `http://127.0.0.1:${port}`, ...AWS_LOGIN },
      ...(maxInFlight !== undefined && { maxInFlight }),
    }),
    async send(name, payloads, headers = {}) {
      const attributes = Object.entries(headers).map(([key, text]) => [key, { DataType: "String", StringValue: text }]);
      for (let from = 0; from < payloads.length; from += 10)
        await client.send(
          new SendMessageBatchCommand({
            QueueUrl: url(name),
            Entries: payloads.slice(from, from + 10).map((MessageBody, i) => ({
              ...{
                Id: String(i),
                MessageBody,
                MessageAttributes: Object.fromEntries(attributes) as Record<string, MessageAttributeValue>,
              },
              ...(name.endsWith(".fifo") && { MessageGroupId: "g", MessageDeduplicationId: `${name}-${from + i}` }),
            })),
          }),
        );
    },
    async left(name) {
      const { waiting, hidden } = await counts(name);
      return waiting + hidden;
    },
    waiting: async (name) => (await counts(name)).waiting,
    async dead(name) {
      const found = [];
      for (const QueueUrl = url(`${name}-dead`); ;) {
        const how = { QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 0 };
        const { Messages: some = [] } = await client.send(new ReceiveMessageCommand(how));
        found.push(...some);
        if (found.length === 0 || found.length >= 2) break;
      }
      const byId = new Map(found.map((one) => [one.MessageId, one]));
      return [...byId.values()].map(({ Body }) => ({ payload: Body ?? "", code: undefined }));
    },
    async refuseDead(name) {
      await redrive(name, "");
      return () => redrive(name, redriveTo(name));
    },
    async [Symbol.asyncDispose]() {
      client.destroy();
      await moto[Symbol.asyncDispose]();
    },
  };
}
