/** The messages of a queue: how they are read, held, and settled. */
import type { Message, SQSClient } from "@aws-sdk/client-sqs";
import { setNewest } from "../../../core/lib/bounded-map.ts";
import type { DeadLetters } from "../messages/dead-letters.ts";
import type { Upstream } from "../messages/intake.ts";
import type { RawMessage } from "../messages/message.ts";

export type SqsLibrary = typeof import("@aws-sdk/client-sqs");

export interface SqsMessage extends RawMessage {
  readonly url: string;
  /** What settles it: that of its last delivery. */
  readonly receipt: string;
}

/** What the queue says of itself. */
interface Look {
  readonly waiting: number;
  readonly visibilityMs: number;
}

const BATCH = 10;
const MOST_LEAVING = 10_000;
const LEAST_VISIBLE_MS = 1_000;

export function readSqs(
  { MessageId, Body, ReceiptHandle, Attributes, MessageAttributes }: Message,
  url: string,
): SqsMessage {
  const headers: Record<string, string> = {};
  for (const [name, { StringValue, BinaryValue }] of Object.entries(MessageAttributes ?? {}))
    headers[name.toLowerCase()] = StringValue ?? Buffer.from(BinaryValue ?? []).toString("utf8");
  const subject = url.slice(url.lastIndexOf("/") + 1);
  const { SentTimestamp, ApproximateReceiveCount, MessageGroupId } = Attributes ?? {};
  return {
    payload: Body ?? "",
    contentType: headers["content-type"],
    headers,
    subject,
    ...(MessageGroupId !== undefined && { key: MessageGroupId }),
    ...(SentTimestamp !== undefined && { at: Number(SentTimestamp) }),
    // The id is the same at each redelivery, and no other message has it.
    place: `${subject.replace(/\.fifo$/, "")}-${MessageId}`,
    redelivered: Number(ApproximateReceiveCount ?? 1) > 1,
    url,
    receipt: ReceiptHandle ?? "",
  };
}

/** Calls with ten messages at a time. @throws Error when the service fails, or keeps one of them as it was */
async function inTens(
  messages: readonly SqsMessage[],
  call: (
    url: string,
    entries: { Id: string; ReceiptHandle: string }[],
  ) => Promise<{ Failed?: { Message?: string }[] | undefined }>,
): Promise<void> {
  const tens = Array.from({ length: Math.ceil(messages.length / BATCH) }, (_, i) =>
    messages.slice(i * BATCH, (i + 1) * BATCH),
  );
  const answers = await Promise.all(
    tens.map((ten) =>
      call(
        ten[0]?.url ?? "",
        ten.map(({ receipt }, i) => ({ Id: String(i), ReceiptHandle: receipt })),
      ),
    ),
  );
  const failed = answers.flatMap(({ Failed = [] }) => Failed);
  if (failed.length > 0) throw new Error(`SQS refused ${failed.length} of ${messages.length}: ${failed[0]?.Message}`);
}

export function sqsSettlement(client: SQSClient, library: SqsLibrary, dead: DeadLetters) {
  const { ChangeMessageVisibilityBatchCommand, DeleteMessageBatchCommand, GetQueueAttributesCommand } = library;
  const held = new Set<SqsMessage>();
  /** Places of messages that are on their way to the dead-letter queue: each comes a few times more, and is not read again. */
  const leaving = new Map<string, true>();
  let hasRedrive = false;
  let ending = AbortSignal.abort();

  const visible = (messages: readonly SqsMessage[], afterMs: number): Promise<void> =>
    inTens(messages, (QueueUrl, entries) => {
      const Entries = entries.map((entry) => ({ ...entry, VisibilityTimeout: Math.ceil(afterMs / 1_000) }));
      return client.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries }));
    });
  const release = (messages: readonly SqsMessage[]): void => messages.forEach((message) => held.delete(message));

  async function look(url: string): Promise<Look> {
    const names = ["VisibilityTimeout", "RedrivePolicy", "ApproximateNumberOfMessages"] as const;
    const { Attributes = {} } = await client.send(
      new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: [...names] }),
    );
    hasRedrive = (Attributes["RedrivePolicy"] ?? "") !== "";
    return {
      waiting: Number(Attributes["ApproximateNumberOfMessages"] ?? 0),
      visibilityMs: Math.max(LEAST_VISIBLE_MS, Number(Attributes["VisibilityTimeout"] ?? 30) * 1_000),
    };
  }

  const upstream: Upstream<SqsMessage> = {
    async stored(messages) {
      release(messages);
      await inTens(messages, (QueueUrl, Entries) => client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries })));
    },
    /**
     * Lets it come again at once, until the queue's redrive policy moves it to the dead-letter queue. Where there is none, the
     * relay keeps hold of it: what it deletes would be lost.
     */
    async setAside(message, poison) {
      const again = async (): Promise<void> => {
        if (!hasRedrive) await look(message.url);
        if (!hasRedrive) throw new Error(`the queue ${message.subject} has no redrive policy to a dead-letter queue`);
        held.delete(message);
        setNewest(leaving, message.place, true, MOST_LEAVING);
        await visible([message], 0);
      };
      try {
        await dead.pass(message, poison, again, ending);
      } finally {
        held.delete(message);
      }
      return false;
    },
    async giveBack(messages) {
      release(messages);
      await visible(messages, 0);
    },
  };

  return {
    upstream,
    look,
    /** Reads the queue at the begin of a session. @param stopping ends what waits for a redrive policy */
    opened(url: string, stopping: AbortSignal): Promise<Look> {
      ending = stopping;
      return look(url);
    },
    /** Notes that messages are in flight. Returns those that are to be read: the others are sent on their way again. */
    hold(messages: readonly SqsMessage[]): readonly SqsMessage[] {
      const [again, fresh] = [true, false].map((is) => messages.filter(({ place }) => leaving.has(place) === is));
      // One that is not told so comes again when its time is over.
      void visible(again ?? [], 0).catch(() => undefined);
      for (const message of fresh ?? []) held.add(message);
      return fresh ?? [];
    },
    /** Asks for more time for every message in flight. One that is refused comes again, and its event is known by its id. */
    extend: (visibilityMs: number): Promise<void> => visible([...held], visibilityMs).catch(() => undefined),
  };
}
