/** The source behind `fromPostgres()`, loaded only where a config names it. */
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type pg from "pg";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { connectedSource, type Session } from "../messages/connected.ts";
import { createIntake } from "../messages/intake.ts";
import { readingOf, type MessageOptions } from "../messages/message.ts";
import { createDeadLetters } from "../messages/dead-letters.ts";
import { createConnector } from "../../brokers/postgres.ts";
import { cursorReader } from "./cursor.ts";
import { outboxReader } from "./outbox.ts";
import { settleRows, type Row } from "./rows.ts";
import { runSession } from "./session.ts";

export interface PostgresOptions extends MessageOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly url: SecretOption;
  /** The table, with its schema where it is not in the search path: `shop.outbox`. @default "outbox" */
  readonly table?: string;
  /**
   * What becomes of a row whose events are stored: it is deleted, or `mark` sets its column `done_at`.
   * @default "delete"
   */
  readonly done?: "delete" | "mark";
  /** Reads the table in the order of its columns `tx` and `id`, and writes nothing to it. @default false */
  readonly cursor?: boolean;
  /** The channel that NOTIFY wakes this source on. @default the table's name without its schema */
  readonly channel?: string;
  /** How often the table is read without a NOTIFY, ms. @default 1_000 */
  readonly pollMs?: number;
  /** Most rows that were read and are not done. @default 2_000 */
  readonly maxInFlight?: number;
}

/** @param url where PostgreSQL is: the option, read and checked */
export function startPostgres(ctx: PluginContext, options: PostgresOptions, library: typeof pg, url: string): Source {
  const { table = "outbox", done = "delete", pollMs = 1_000, maxInFlight = 2_000 } = options;
  const { channel = table.split(".").at(-1) as string } = options;
  const connect = createConnector(library, url, ctx.clock);
  const reading = readingOf(options, "postgres");
  const intake = createIntake<Row>(ctx, { reading, maxInFlight, settle: settleRows });
  const parts = { intake, connect, table, clock: ctx.clock };
  const { storage, log } = ctx;
  let held: string | undefined;
  const refused = (why: string | undefined): void => {
    if (why !== undefined && held === undefined)
      log.warn("a row cannot be set aside", { source: reading.source, error: why });
    held = why && `a row cannot be moved to ${table}_dead: ${why}`;
  };
  const reader =
    options.cursor === true
      ? cursorReader({ ...parts, storage, kept: createDeadLetters(ctx, reading.source) })
      : outboxReader({ ...parts, done, refused });
  const session: Session = ({ stopping, connected }) =>
    runSession({ connect, reader, channel, pollMs, clock: ctx.clock, signal: stopping, connected });
  return connectedSource(intake, ctx.clock, session, { readiness: () => held });
}
