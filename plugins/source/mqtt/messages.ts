/** The messages of one connection: each is acknowledged on the connection that it came by, and on no other. */
import { hash } from "node:crypto";
import type { IPublishPacket, MqttClient } from "mqtt";
import type { Poison, RawMessage } from "../messages/message.ts";

type Stream = MqttClient["stream"];

export interface MqttMessage extends RawMessage {
  readonly client: MqttClient;
  readonly stream: Stream;
  /** Aborts when the session ends. */
  readonly ending: AbortSignal;
  readonly packetId: number;
  readonly qos: 0 | 1 | 2;
}

/** The first bytes of a PUBACK and of a PUBREC; two with the packet id follow. A PUBREL is answered by the client. */
const ANSWERS = { 1: [0x40, 2], 2: [0x50, 2] } as const;
const DETAIL_LENGTH = 500;

/**
 * Hands over each message that comes, and leaves its acknowledgement to `acknowledge`. The client itself takes the next packet,
 * and be it the broker's sign of life, only when it has acknowledged the one before: messages could not be stored in groups. So
 * it is shown each one as one that wants no acknowledgement.
 */
export function takeOver(client: MqttClient, take: (packet: IPublishPacket) => void): void {
  client.on("packetreceive", (packet) => {
    if (packet.cmd !== "publish") return;
    const { topic, properties } = packet;
    // The client resolves no alias here: none was offered, so a broker sends none.
    if (topic !== "" || properties?.topicAlias === undefined) take({ ...packet });
    packet.qos = 0;
  });
}

/** @throws Error when the connection is lost: the broker sends the messages again */
export function acknowledge(stream: Stream, messages: readonly MqttMessage[]): void {
  if (messages.some(({ client }) => client.stream !== stream) || stream.destroyed)
    throw new Error("the connection that the messages came by is lost");
  const frames = messages.flatMap(({ qos, packetId }) =>
    qos === 0 ? [] : [Buffer.from([...ANSWERS[qos], packetId >> 8, packetId & 0xff])],
  );
  if (frames.length > 0) stream.write(Buffer.concat(frames));
}

export function readMqtt(packet: IPublishPacket, client: MqttClient, ending: AbortSignal): MqttMessage {
  const { topic, payload, messageId = 0, dup, qos, properties = {} } = packet;
  const headers = headersOf(properties.userProperties ?? {});
  const own = headers["message-id"] ?? headers["messageid"];
  return {
    payload,
    ...(properties.contentType !== undefined && { contentType: properties.contentType }),
    headers,
    subject: topic,
    ...(own !== undefined ? { place: `${topic}-${own}` } : { place: madePlace(packet, headers), madePlace: true }),
    redelivered: dup,
    ...{ client, stream: client.stream, ending, packetId: messageId, qos },
  };
}

/**
 * Returns the place by which a message is recognised that is delivered again. MQTT gives it no position, only the packet id, which
 * stays the same until it is acknowledged, and belongs to another message afterwards. Readings that are alike, one after
 * the other, have different ones as a rule.
 */
function madePlace({ topic, payload, messageId }: IPublishPacket, headers: object): string {
  const digest = hash(
    "sha256",
    Buffer.concat([Buffer.from(JSON.stringify([messageId, headers])), Buffer.from(payload)]),
    "hex",
  );
  return `${topic}-${digest.slice(0, 40)}`;
}

/** The attributes of a CloudEvent stand among the user properties under their own names, as its binding says. */
function headersOf(given: Readonly<Record<string, string | readonly string[]>>): Readonly<Record<string, string>> {
  const all = Object.entries(given).map(([name, value]) => [name.toLowerCase(), [value].flat().join(", ")] as const);
  const start = all.some(([name]) => name === "specversion") ? "ce-" : "";
  return Object.fromEntries(all.map(([name, value]) => [`${start}${name}`, value]));
}

/** Resolves when the broker has it. @throws Error when it refuses it */
export async function deadLetterOf(
  client: MqttClient,
  topic: string,
  { payload, headers, subject, contentType }: MqttMessage,
  { code, detail }: Poison,
): Promise<void> {
  const reason = { "relay-code": code, "relay-detail": detail.slice(0, DETAIL_LENGTH), "relay-topic": subject };
  const v5 = client.options.protocolVersion === 5;
  const properties = { userProperties: { ...headers, ...reason }, ...(contentType !== undefined && { contentType }) };
  await client.publishAsync(topic, Buffer.from(payload as Uint8Array), { qos: 1, ...(v5 && { properties }) });
}
