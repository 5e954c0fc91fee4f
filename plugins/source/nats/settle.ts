/** Tells JetStream what became of the messages of one connection, and keeps it from delivering those in flight again. */
import type { NatsConnection } from "@nats-io/transport-node";
import { every } from "../../../core/lib/every.ts";
import { isUnanswered, type NatsLibrary } from "../../brokers/nats.ts";
import type { Poison } from "../messages/message.ts";
import type { NatsMessage, NatsSettlement } from "./message.ts";

/** Older servers take no reason with a termination: they do not know such a word, and deliver the message again. */
const REASON_SINCE = [2, 11] as const;
const HEADER_LENGTH = 500;

/** @param pass does it again and again until it works, or until the session ends */
export function settlementOn(
  connection: NatsConnection,
  { deadLetterSubject }: { readonly deadLetterSubject?: string },
  { jetstream, headers }: NatsLibrary,
  pass: (message: NatsMessage, poison: Poison, publish: () => Promise<void>) => Promise<void>,
): NatsSettlement {
  const held = new Set<NatsMessage>();
  const client = jetstream(connection);
  const takesReason = isSince(connection.info?.version);

  async function deadLetter(message: NatsMessage, subject: string, poison: Poison): Promise<void> {
    const { original, place } = message;
    const { code, detail } = poison;
    const out = headers();
    for (const [name, values] of original.headers ?? []) {
      // `Nats-…` headers would tell the server what to do with the copy.
      if (!name.startsWith("Nats-")) for (const value of values) out.append(name, value);
    }
    out.set("Relay-Code", code);
    out.set("Relay-Detail", detail.replaceAll(/[\r\n]/g, " ").slice(0, HEADER_LENGTH));
    out.set("Relay-Subject", original.subject);
    // Its own id makes a second copy of the same message none.
    try {
      await client.publish(subject, original.data, { headers: out, msgID: `relay-${place}` });
    } catch (error) {
      throw isUnanswered(error) ? new Error(`no stream takes the subject ${subject}`, { cause: error }) : error;
    }
  }

  return {
    hold(message) {
      held.add(message);
      return message;
    },
    settle(message, outcome) {
      held.delete(message);
      // A lost acknowledgement costs a redelivery, which the id of the event answers: no confirmation is waited for.
      if (outcome === "stored") message.original.ack();
      else message.original.nak();
    },
    async setAside(message, poison) {
      try {
        // In flight until then: its lease is extended, so that it does not come again meanwhile.
        if (deadLetterSubject !== undefined)
          await pass(message, poison, () => deadLetter(message, deadLetterSubject, poison));
        message.original.term(takesReason ? poison.code : "");
      } finally {
        held.delete(message);
      }
    },
    extendLeases: (clock, over, ackWaitMs) =>
      every(
        clock,
        ackWaitMs / 3,
        () => {
          if (!connection.isClosed()) for (const { original } of held) original.working();
        },
        over,
      ),
  };
}

function isSince(version = ""): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > REASON_SINCE[0] || (major === REASON_SINCE[0] && minor >= REASON_SINCE[1]);
}
