/** The source behind `fromPostgres()`, loaded only where a config names it. */
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type pg from "pg";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { DeadLetters } from "../messages/dead-letters.ts";
import type { Reading } from "../messages/message.ts";
import { createConnector } from "../../brokers/postgres.ts";
import type { ReadMode } from "../outbox/layout.ts";
import { inspectOutbox, startOutbox } from "../outbox/source.ts";
import { wantedOf, type OutboxOptions } from "../outbox/wanted.ts";
import { CursorReader } from "./cursor.ts";
import { postgresDialect as dialect } from "./dialect.ts";

export interface PostgresOptions extends OutboxOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly url: SecretOption;
  /** Reads the table in the order of its columns `tx` and `id`, and writes nothing to it. @default false */
  readonly cursor?: boolean;
  /** The channel of NOTIFY. @default the table's name without its schema */
  readonly channel?: string;
  /** How often the table is read without a NOTIFY, ms. @default 1_000 */
  readonly pollMs?: number;
}

const modeOf = ({ cursor, done = "delete" }: PostgresOptions): ReadMode => (cursor === true ? "cursor" : done);

/** @param url where PostgreSQL is: the option, read and checked */
export function startPostgres(
  ctx: PluginContext,
  options: PostgresOptions & Reading,
  library: typeof pg,
  url: string,
): Source {
  const { pollMs = 1_000, channel } = options;
  const connect = createConnector(library, url, ctx.clock);
  const mode = modeOf(options);
  return startOutbox(ctx, options, {
    ...{ connect, dialect, mode, pollMs },
    // It stands between quotes.
    channel: (channel ?? (wantedOf(options, mode).table.parts.at(-1) as string)).replaceAll('"', '""'),
    ...(mode === "cursor" && {
      reader: (intake, wanted) =>
        new CursorReader({ intake, wanted, storage: ctx.storage, kept: new DeadLetters(ctx, options.source) }),
    }),
  });
}

export const inspectPostgres = (
  { clock }: Pick<PluginContext, "clock">,
  options: PostgresOptions,
  library: typeof pg,
  url: string,
) => inspectOutbox(createConnector(library, url, clock), dialect, wantedOf(options, modeOf(options)));
