/** Sets messages that hold no valid event aside: in a topic of their own, or in the plug-in's own store. */
import type { Producer } from "@platformatic/kafka";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { endsWithin } from "../messages/connected.ts";
import type { Poison } from "../messages/message.ts";
import { setAsideStore } from "../messages/set-aside.ts";
import type { KafkaMessage } from "./message.ts";

interface DeadLetters {
  /** Resolves when the message is kept: only then its offset may be committed. */
  setAside(message: KafkaMessage, poison: Poison): Promise<void>;
  close(): Promise<void>;
}

const CLOSE_MS = 2_000;
/** All replicas in sync have it. */
const ALL = -1;

export function createDeadLetters(
  { clock, log, storage }: PluginContext,
  { deadLetterTopic }: { readonly deadLetterTopic?: string },
  source: string,
  connect: () => Producer<Buffer, Buffer, Buffer, Buffer>,
): DeadLetters {
  const kept = setAsideStore(storage, source);
  let producer: Producer<Buffer, Buffer, Buffer, Buffer> | undefined;
  return {
    async setAside(message, { code, detail }) {
      if (deadLetterTopic === undefined) return kept.keep(message, { code, detail }, clock.now());
      const { key, value, topic, partition, offset, headers } = message.original;
      const reason = { "relay-code": code, "relay-detail": detail, "relay-place": `${topic}/${partition}/${offset}` };
      const out = new Map(headers);
      for (const [name, text] of Object.entries(reason)) out.set(Buffer.from(name), Buffer.from(text));
      producer ??= connect();
      try {
        await producer.send({ acks: ALL, messages: [{ topic: deadLetterTopic, key, value, headers: out }] });
      } catch (error) {
        log.warn("a dead-letter topic cannot be written: the message is kept here", { source, error: String(error) });
        await kept.keep(message, { code, detail }, clock.now());
      }
    },
    async close() {
      if (producer === undefined) return;
      await endsWithin(clock, CLOSE_MS, producer.close(true));
    },
  };
}
