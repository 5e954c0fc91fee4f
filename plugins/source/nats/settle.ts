/** Tells JetStream what became of the messages of one connection, and keeps it from delivering those in flight again. */
import type { NatsConnection } from "@nats-io/transport-node";
import type { Poison } from "../messages/message.ts";
import type { NatsMessage, NatsSettlement } from "./message.ts";

/** What the source needs of the packages of NATS. */
export type NatsLibrary = Pick<
  typeof import("@nats-io/transport-node"),
  "connect" | "credsAuthenticator" | "errors" | "headers"
> &
  Pick<typeof import("@nats-io/jetstream"), "jetstream" | "jetstreamManager">;

/** Older servers take no reason with a termination: they do not know such a word, and deliver the message again. */
const REASON_SINCE = [2, 11] as const;
const HEADER_LENGTH = 500;

interface SetAsideParts {
  /** Does it again and again until it works, or until the session ends. */
  insist(work: () => Promise<void>): Promise<void>;
  /** Keeps a message that the server can never take as a dead letter. Resolves when it is stored. */
  keep(message: NatsMessage, poison: Poison, why: string): Promise<void>;
}

export function settlementOn(
  connection: NatsConnection,
  { deadLetterSubject }: { readonly deadLetterSubject?: string },
  { jetstream, headers, errors }: NatsLibrary,
  { insist, keep }: SetAsideParts,
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
      const { cause = error } = error as Error;
      // It is larger by the reason, and perhaps larger than the server takes.
      if (cause instanceof errors.InvalidArgumentError) return await keep(message, poison, cause.message);
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
        if (deadLetterSubject !== undefined) await insist(() => deadLetter(message, deadLetterSubject, poison));
        message.original.term(takesReason ? poison.code : "");
      } finally {
        held.delete(message);
      }
    },
    async extendLeases(clock, over, ackWaitMs) {
      while (!over.aborted) {
        await clock.sleep(clock.now() + ackWaitMs / 3, over).catch(() => undefined);
        if (over.aborted || connection.isClosed()) return;
        for (const { original } of held) original.working();
      }
    },
  };
}

function isSince(version = ""): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > REASON_SINCE[0] || (major === REASON_SINCE[0] && minor >= REASON_SINCE[1]);
}

/** Nobody has answered: no stream listens there. The client does not export the class. */
const isUnanswered = (error: unknown): boolean => (error as Error).name === "JetStreamNotEnabled";
