/** A Kafka message in the words of all message sources. */
import type { Message } from "@platformatic/kafka";
import type { RawMessage } from "../messages/message.ts";
import type { Claim } from "./claim.ts";

export interface KafkaMessage extends RawMessage {
  readonly original: Message;
  /** It may be committed only as long as this holds. */
  readonly claim: Claim;
}

/**
 * @param topicId Kafka's own id of the topic: another topic of the same name counts from 0 again, and its messages must not
 * pass for those of the first
 */
export function readKafka(original: Message, topicId: string, claim: Claim): KafkaMessage {
  const { topic, partition, offset, key, value, headers, timestamp } = original;
  const texts: Record<string, string> = {};
  for (const [name, text] of headers) texts[name.toString("utf8").toLowerCase()] = text?.toString("utf8") ?? "";
  return {
    // A message without a value, which deletes a key in a compacted topic, is no event.
    payload: value ?? "",
    ...(texts["content-type"] !== undefined && { contentType: texts["content-type"] }),
    headers: texts,
    subject: topic,
    ...(key !== undefined && key !== null && { key: key.toString("utf8") }),
    at: Number(timestamp),
    place: `${topic}:${topicId}:${partition}:${offset}`,
    original,
    claim,
  };
}
