/** Settles the messages of one connection with JetStream, and keeps those in flight from being delivered again. */
import type { JsMsg } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { every } from "../../../core/lib/every.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { isUnanswered, type NatsLibrary } from "../../brokers/nats.ts";
import type { Poison, RawMessage } from "../messages/message.ts";

/** Older servers take no reason with a termination: they do not know such a word, and deliver the message again. */
const REASON_SINCE = [2, 11] as const;
const HEADER_LENGTH = 500;

export type Settlement = ReturnType<typeof settlementOn>;

/** @param pass does it again and again until it works, or until the session ends */
export function settlementOn(
  connection: NatsConnection,
  library: NatsLibrary,
  deadLetterSubject: string | undefined,
  pass: (message: NatsMessage, poison: Poison, publish: () => Promise<void>) => Promise<void>,
) {
  const held = new Set<JsMsg>();
  const client = library.jetstream(connection);

  async function publish({ original, place }: NatsMessage, subject: string, { code, detail }: Poison): Promise<void> {
    const headers = library.headers();
    for (const [name, values] of original.headers ?? []) {
      // `Nats-…` headers would tell the server what to do with the copy.
      if (!name.startsWith("Nats-")) for (const value of values) headers.append(name, value);
    }
    headers.set("Relay-Code", code);
    headers.set("Relay-Detail", detail.replaceAll(/[\r\n]/g, " ").slice(0, HEADER_LENGTH));
    headers.set("Relay-Subject", original.subject);
    try {
      // Its own id makes a second copy of the same message none.
      await client.publish(subject, original.data, { headers, msgID: `relay-${place}` });
    } catch (error) {
      throw isUnanswered(error) ? new Error(`no stream takes the subject ${subject}`, { cause: error }) : error;
    }
  }

  return {
    /** Notes that a message is in flight. */
    hold: (original: JsMsg) => held.add(original),
    /** A lost acknowledgement costs a redelivery, which the id of the event answers: no confirmation is waited for. */
    settle(original: JsMsg, fate: "ack" | "nak"): void {
      held.delete(original);
      original[fate]();
    },
    /**
     * Passes a message to the dead-letter subject, if there is one, and ends it. It is in flight until then, so that it does
     * not come again meanwhile.
     * @throws Error when the session ends before that
     */
    async setAside(message: NatsMessage, poison: Poison): Promise<void> {
      const { original } = message;
      try {
        if (deadLetterSubject !== undefined)
          await pass(message, poison, () => publish(message, deadLetterSubject, poison));
        original.term(isSince(connection.info?.version) ? poison.code : "");
      } finally {
        held.delete(original);
      }
    },
    /** Asks for more time for messages in flight, thrice in `ackWaitMs`, until the signal aborts. */
    extendLeases(clock: Clock, over: AbortSignal, ackWaitMs: number): Promise<void> {
      const extend = (): void => {
        if (!connection.isClosed()) for (const original of held) original.working();
      };
      return every(clock, ackWaitMs / 3, extend, over);
    },
  };
}

function isSince(version = ""): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > REASON_SINCE[0] || (major === REASON_SINCE[0] && minor >= REASON_SINCE[1]);
}

export interface NatsMessage extends RawMessage {
  readonly original: JsMsg;
  /** That of the connection that it came by, and no other. */
  readonly settlement: Settlement;
}

/**
 * @param streamName the stream and when it was made: another stream of the same name counts from 1 again, and its messages
 * must not pass for those of the first
 */
export function readNats(original: JsMsg, streamName: string, settlement: Settlement): NatsMessage {
  const { headers, info } = original;
  const texts = headers && textHeaders(headers);
  return {
    payload: original.data,
    contentType: texts?.["content-type"],
    headers: texts,
    subject: original.subject,
    at: Math.floor(info.timestampNanos / 1_000_000),
    place: `${streamName}-${info.streamSequence}`,
    redelivered: original.redelivered,
    original,
    settlement,
  };
}

function textHeaders(headers: NonNullable<JsMsg["headers"]>): Readonly<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const [name, values] of headers) texts[name.toLowerCase()] = values.join(", ");
  return texts;
}
