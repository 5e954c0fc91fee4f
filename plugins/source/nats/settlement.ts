/** Tells JetStream what became of the messages of one connection, and keeps it from delivering those in flight again. */
import type { JsMsg } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { every } from "../../../core/lib/every.ts";
import type { Clock } from "../../../core/ports/clock.ts";
import { isUnanswered, type NatsLibrary } from "../../brokers/nats.ts";
import type { DeadLetters } from "../messages/dead-letters.ts";
import type { Poison } from "../messages/message.ts";
import type { NatsMessage } from "./message.ts";

/** Older servers take no reason with a termination: they do not know such a word, and deliver the message again. */
const REASON_SINCE = [2, 11] as const;
const HEADER_LENGTH = 500;

interface Parts {
  readonly connection: NatsConnection;
  readonly library: NatsLibrary;
  readonly dead: DeadLetters;
  readonly deadLetterSubject: string | undefined;
  /** Ends the attempts to pass on dead letters. */
  readonly ending: AbortSignal;
}

export class Settlement {
  readonly #parts: Parts;
  readonly #held = new Set<JsMsg>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Notes that a message is in flight. */
  hold(original: JsMsg): void {
    this.#held.add(original);
  }

  /**
   * Asks for more time for every message in flight, three times in each `ackWaitMs`: storage may be away for longer than
   * the consumer waits. Resolves when the signal aborts.
   */
  extendLeases(clock: Clock, over: AbortSignal, ackWaitMs: number): Promise<void> {
    const extend = (): void => {
      if (!this.#parts.connection.isClosed()) for (const original of this.#held) original.working();
    };
    return every(clock, ackWaitMs / 3, extend, over);
  }

  /** A lost acknowledgement costs a redelivery, which the id of the event answers: no confirmation is waited for. */
  acknowledge(original: JsMsg): void {
    this.#held.delete(original);
    original.ack();
  }

  giveBack(original: JsMsg): void {
    this.#held.delete(original);
    original.nak();
  }

  /**
   * Passes a message to the dead-letter subject, if there is one, and ends it. It is in flight until then, so that it does not
   * come again meanwhile.
   * @throws Error when the session ends before that
   */
  async setAside(message: NatsMessage, poison: Poison): Promise<void> {
    const { connection, dead, deadLetterSubject: subject, ending } = this.#parts;
    const { original } = message;
    try {
      if (subject !== undefined)
        await dead.pass(message, poison, () => this.#publish(message, subject, poison), ending);
      original.term(isSince(connection.info?.version) ? poison.code : "");
    } finally {
      this.#held.delete(original);
    }
  }

  async #publish({ original, place }: NatsMessage, subject: string, { code, detail }: Poison): Promise<void> {
    const { connection, library } = this.#parts;
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
      await library.jetstream(connection).publish(subject, original.data, { headers, msgID: `relay-${place}` });
    } catch (error) {
      throw isUnanswered(error) ? new Error(`no stream takes the subject ${subject}`, { cause: error }) : error;
    }
  }
}

function isSince(version = ""): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > REASON_SINCE[0] || (major === REASON_SINCE[0] && minor >= REASON_SINCE[1]);
}
