/** One session with PostgreSQL: reads what is there, then waits for a NOTIFY or the next poll. */
import type { Clock } from "../../../core/ports/clock.ts";
import { unlessAborted, within } from "../../../core/lib/within.ts";
import type { OpenConnection, Connection } from "../../brokers/postgres.ts";

export interface Reader {
  /** Checks that the tables are there. @throws Error that says what is missing */
  check(connection: Connection): Promise<void>;
  /** Publishes all rows that can be read now. @throws Error when PostgreSQL or the store fails */
  drain(connection: Connection, signal: AbortSignal): Promise<void>;
  /** Closes what `drain` has opened. */
  close(): Promise<void>;
}

interface SessionParts {
  readonly connect: OpenConnection;
  readonly reader: Reader;
  readonly channel: string;
  readonly pollMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called once everything works. */
  connected(): void;
}

export async function runSession(parts: SessionParts): Promise<void> {
  const { reader, channel, pollMs, clock, signal } = parts;
  const connection = await parts.connect(signal);
  let news = Promise.withResolvers<void>();
  const wake = (): void => news.resolve();
  signal.addEventListener("abort", wake, { once: true });
  try {
    // No row is read yet, so that a stop need not wait for these answers.
    await unlessAborted(signal, prepare());
    if (signal.aborted) return;
    parts.connected();
    while (!signal.aborted) {
      news = Promise.withResolvers();
      await reader.drain(connection, signal);
      if (!signal.aborted) await within(clock, pollMs, news.promise);
    }
  } finally {
    signal.removeEventListener("abort", wake);
    await reader.close();
    await connection.close();
  }

  async function prepare(): Promise<void> {
    await reader.check(connection);
    await connection.listen(channel, wake);
  }
}
