/** `fromPostgres({ url, table })` publishes the rows of an outbox table, or reads a growing table without writing to it. */
import type { FieldError } from "../../core/model/problem.ts";
import type { SecretOption } from "../../core/model/secret-option.ts";
import type { Plugin, PluginContext } from "../../core/ports/plugin.ts";
import type { Source } from "../../core/ports/source.ts";
import { connectedSource } from "./messages/connected.ts";
import { createIntake } from "./messages/intake.ts";
import { library, libraryProblems } from "./messages/library.ts";
import type { MessageOptions } from "./messages/message.ts";
import { checkedUrl, countProblems, messageProblems, readingOf, urlProblems } from "./messages/options.ts";
import { messageSource } from "./messages/plugin.ts";
import { setAsideStore } from "./messages/set-aside.ts";
import { createConnector } from "./postgres/client.ts";
import { cursorReader } from "./postgres/cursor.ts";
import { outboxReader } from "./postgres/outbox.ts";
import { settleRows, type Row } from "./postgres/rows.ts";
import { runSession } from "./postgres/session.ts";

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

const OWN = ["url", "table", "done", "cursor", "channel", "pollMs", "maxInFlight"];
const KIND = "postgres";
const PROTOCOLS = ["postgres:", "postgresql:"];
const NAME = "[A-Za-z_][A-Za-z0-9_$]{0,62}";
const TABLE = new RegExp(`^${NAME}(?:\\.${NAME})?$`);
const CHANNEL = new RegExp(`^${NAME}$`);

/**
 * Publishes the column `event` (json, jsonb or text) of each row of a table with `id bigint primary key`. A row is deleted, or
 * marked, in a transaction that is committed after its events are stored. Needs the package `pg`, and PostgreSQL 13 or newer.
 */
export function fromPostgres(options: PostgresOptions): Plugin<"source", Source> {
  const url = (options as PostgresOptions | undefined)?.url;
  return messageSource({ kind: KIND, options, problems: problemsOf(options), secrets: { url }, open });
}

function problemsOf(options: PostgresOptions | undefined): readonly FieldError[] {
  const { url, table, done, cursor, channel, pollMs, maxInFlight } = options ?? ({} as PostgresOptions);
  const found = [...messageProblems(options, OWN), ...urlProblems("url", url, PROTOCOLS)];
  const check = (path: string, value: unknown, right: boolean, message: string): void => {
    if (value !== undefined && !right) found.push({ path, message });
  };
  check("table", table, typeof table === "string" && TABLE.test(table), "must be a table, or schema.table");
  check("done", done, done === "delete" || done === "mark", 'must be "delete" or "mark"');
  check("cursor", cursor, typeof cursor === "boolean", "must be true or false");
  if (cursor === true && done !== undefined) found.push({ path: "done", message: "has no meaning beside cursor" });
  check("channel", channel, typeof channel === "string" && CHANNEL.test(channel), "must be the name of a channel");
  found.push(...countProblems("pollMs", pollMs, 10, 3_600_000));
  found.push(...countProblems("maxInFlight", maxInFlight, 1, 10_000));
  return [...found, ...libraryProblems("fromPostgres()", import.meta.url, "pg")];
}

async function open(options: PostgresOptions, ctx: PluginContext): Promise<Source> {
  const { table = "outbox", done = "delete", pollMs = 1_000, maxInFlight = 2_000 } = options;
  const { channel = table.split(".").at(-1) as string } = options;
  const { default: pg } = await library("fromPostgres()", "pg", () => import("pg"));
  const connect = createConnector(pg, checkedUrl("fromPostgres()", ctx.secret("url"), PROTOCOLS), ctx.clock);
  const reading = readingOf(options, KIND);
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
      ? cursorReader({ ...parts, storage, kept: setAsideStore(storage, reading.source) })
      : outboxReader({ ...parts, done, refused });
  const source = connectedSource(intake, ctx.clock, ({ stopping, connected }) =>
    runSession({ connect, reader, channel, pollMs, clock: ctx.clock, signal: stopping, connected }),
  );
  return { ...source, readiness: () => source.readiness?.() ?? held };
}
