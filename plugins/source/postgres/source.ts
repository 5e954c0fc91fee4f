/** The source behind `fromPostgres()`, loaded only where a config names it. */
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type pg from "pg";
import { unlessAborted, within } from "../../../core/lib/within.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { connectedSource, watchBacklog, type SessionLife } from "../messages/connected.ts";
import { DeadLetters } from "../messages/dead-letters.ts";
import { Intake } from "../messages/intake.ts";
import type { MessageOptions, Reading } from "../messages/message.ts";
import { createConnector } from "../../brokers/postgres.ts";
import { CursorReader } from "./cursor.ts";
import { OutboxReader } from "./outbox.ts";
import { ROWS, type Reader, type Row } from "./rows.ts";

export interface PostgresOptions extends MessageOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly url: SecretOption;
  /** The table, where need be with its schema: `shop.outbox`. @default "outbox" */
  readonly table?: string;
  /** Deletes a row whose events are stored; `mark` sets its `done_at`. @default "delete" */
  readonly done?: "delete" | "mark";
  /** Reads the table in the order of its columns `tx` and `id`, and writes nothing to it. @default false */
  readonly cursor?: boolean;
  /** The channel of NOTIFY. @default the table's name without its schema */
  readonly channel?: string;
  /** How often the table is read without a NOTIFY, ms. @default 1_000 */
  readonly pollMs?: number;
  /** Most rows that were read and are not done. @default 2_000 */
  readonly maxInFlight?: number;
}

/** @param url where PostgreSQL is: the option, read and checked */
export function startPostgres(
  ctx: PluginContext,
  options: PostgresOptions & Reading,
  library: typeof pg,
  url: string,
): Source {
  const { clock } = ctx;
  const { source, table = "outbox", done = "delete", pollMs = 1_000, maxInFlight = 2_000 } = options;
  const { channel = table.split(".").at(-1) as string } = options;
  const connect = createConnector(library, url, clock);
  const intake = new Intake<Row>(ctx, { reading: options, maxInFlight, upstream: ROWS });
  const reader: Reader =
    options.cursor === true
      ? new CursorReader({ intake, table, storage: ctx.storage, kept: new DeadLetters(ctx, source) })
      : new OutboxReader({ intake, table, connect, done, clock, log: ctx.log, source });

  /** On a connection of its own: that of the session may be in a transaction, or wait for the storage. */
  async function backlog(ending: AbortSignal) {
    const connection = await connect(ending);
    try {
      return await reader.backlog(connection);
    } finally {
      await connection.close();
    }
  }

  /** Reads what is there, then waits for a NOTIFY or the next poll. */
  async function session({ stopping, ending, connected }: SessionLife): Promise<void> {
    const connection = await connect(stopping);
    let news = Promise.withResolvers<void>();
    const prepare = async (): Promise<void> => {
      await reader.check(connection);
      await connection.listen(channel, () => news.resolve());
    };
    try {
      // No row is read yet, so that a stop need not wait for these answers.
      await unlessAborted(stopping, prepare());
      if (stopping.aborted) return;
      connected();
      void watchBacklog(clock, intake, ending, () => backlog(ending));
      while (!stopping.aborted) {
        news = Promise.withResolvers();
        await reader.drain(connection, stopping);
        await within(clock, pollMs, news.promise, stopping);
      }
    } finally {
      await reader.end?.();
      await connection.close();
    }
  }

  return connectedSource(intake, clock, session, { readiness: () => reader.readiness?.() });
}
