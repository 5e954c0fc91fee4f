/** The SQS transport against moto's server: FIFO queues, credentials of the chain, and what the service refuses. */
import { writeFileSync } from "node:fs";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { sendTo, textOf } from "../support/bus-bench.ts";
import { describeBus } from "../support/bus-laws.ts";
import { testFolder } from "../support/folder.ts";
import { sqsBus } from "../support/buses/sqs.ts";

describeBus(sqsBus, (stage) => {
  const { open } = stage;
  const fifo = (name: string) => stage.far.client.createQueue({ QueueName: name, Attributes: { FifoQueue: "true" } });

  it("puts what has the same key into one group of a FIFO queue, and a repeat of an attempt is none", async () => {
    await fifo("paid.fifo");
    const transport = await open({ key: "data.customer" });
    const body = (customer: string) => Buffer.from(JSON.stringify({ data: { customer } }));
    for (const [customer, messageId] of [
      ["a", "m1"],
      ["a", "m1"],
      ["a", "m2"],
      ["é é", "m3"],
    ] as const)
      expect(textOf(await sendTo(transport, "sqs://bus/paid.fifo", { body: body(customer), messageId }))).toMatch(
        /^200/,
      );
    const { QueueUrl } = await stage.far.client.getQueueUrl({ QueueName: "paid.fifo" });
    const how = { QueueUrl, MaxNumberOfMessages: 10, MessageSystemAttributeNames: ["MessageGroupId" as const] };
    const { Messages = [] } = await stage.far.client.receiveMessage(how);
    expect(Messages.map(({ Attributes }) => Attributes?.MessageGroupId)).toEqual([
      "a",
      "a",
      expect.stringMatching(/^[0-9a-f]{64}$/),
    ]);
  });

  it("sends what comes together in calls of ten, and answers each by itself", async () => {
    const url = await stage.far.destination("many");
    const transport = await open();
    const replies = await Promise.all(Array.from({ length: 25 }, () => sendTo(transport, url)));
    expect(new Set(replies.map(textOf)).size).toBe(25);
    expect(await stage.far.arrived(url, 25)).toHaveLength(25);
  });

  it("finds a queue that is made after it was asked for, and one that was deleted no more", async () => {
    const transport = await open();
    expect(textOf(await sendTo(transport, "sqs://bus/later"))).toBe("error the queue later is not there");
    await stage.far.destination("later");
    expect(textOf(await sendTo(transport, "sqs://bus/later"))).toMatch(/^200/);
    const { QueueUrl } = await stage.far.client.getQueueUrl({ QueueName: "later" });
    await stage.far.client.deleteQueue({ QueueUrl });
    expect(textOf(await sendTo(transport, "sqs://bus/later"))).toBe("error the queue later is not there");
    expect(transport.readiness?.()).toBeUndefined();
  });

  it.each<[string, () => Promise<Readonly<Record<string, string>>>]>([
    ["the environment", async () => ({ AWS_ACCESS_KEY_ID: "ENVIRONMENT", AWS_SECRET_ACCESS_KEY: "s" })],
    [
      "the shared file",
      async () => {
        const file = join(testFolder(), "credentials");
        writeFileSync(file, "[relay]\naws_access_key_id = FILE\naws_secret_access_key = s\n");
        return { AWS_SHARED_CREDENTIALS_FILE: file, AWS_PROFILE: "relay" };
      },
    ],
    [
      "the role of the container",
      async () => {
        const role = { AccessKeyId: "ROLE", SecretAccessKey: "s", Token: "t", Expiration: "2099-01-01T00:00:00Z" };
        const server = createServer((_, answer) => void answer.end(JSON.stringify(role))).listen(0, "127.0.0.1");
        await once(server, "listening");
        onTestFinished(() => void server.close());
        return { AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
      },
    ],
  ])("logs in with what %s says where the config says nothing", async (name, given) => {
    const url = await stage.far.destination("chain");
    for (const [key, value] of Object.entries(await given())) vi.stubEnv(key, value);
    onTestFinished(() => void vi.unstubAllEnvs());
    const seen = new Set<string>();
    stage.far.server.deny((_method, _path, { authorization = "" }) => {
      seen.add(/Credential=(\w+)/.exec(authorization)?.[1] ?? "");
      return false;
    });
    const transport = await open({ accessKeyId: undefined, secretAccessKey: undefined });
    expect(textOf(await sendTo(transport, url))).toMatch(/^200/);
    await transport.dispose();
    expect([...seen]).toEqual([name.split(" ")[1]?.toUpperCase().replace("SHARED", "FILE")]);
  });
});
