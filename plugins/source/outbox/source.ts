/** The source of an outbox, in whatever database it is. */
import { unlessAborted, within } from "../../../core/lib/within.ts";
import type { Inspected, PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { connectedSource, watchBacklog, type SessionLife } from "../messages/connected.ts";
import { Intake } from "../messages/intake.ts";
import type { Reading, SourceMessage } from "../messages/message.ts";
import type { Connection, OpenConnection } from "../../brokers/sql/connection.ts";
import type { Dialect } from "./dialect.ts";
import { fit, type OutboxColumns, type ReadMode, type Wanted } from "./layout.ts";
import { OutboxReader } from "./reader.ts";
import { ROWS, type Reader, type Row } from "./rows.ts";
import { wantedOf, type OutboxOptions } from "./wanted.ts";

interface Parts {
  readonly connect: OpenConnection;
  readonly dialect: Dialect;
  readonly mode: ReadMode;
  readonly pollMs: number;
  /** The channel that wakes it, where the database has such. */
  readonly channel?: string;
  /** Makes another reader than that of an outbox. */
  readonly reader?: (intake: Intake<Row>, wanted: Wanted) => Reader;
}

/** Compares the table with the options, for `relay check --machine`. @throws Error when the database cannot be asked */
export async function inspectOutbox(
  connect: OpenConnection,
  dialect: Dialect,
  wanted: Wanted,
): Promise<readonly Inspected[]> {
  const connection = await connect(new AbortController().signal);
  try {
    const shape = await dialect.shape(connection, wanted);
    if (shape === undefined) return [{ isBad: true, message: `there is no table ${wanted.table.label}` }];
    const { faults, hints } = fit(wanted, shape);
    return [
      ...faults.map((message) => ({ isBad: true, message })),
      ...hints.map((message) => ({ isBad: false, message })),
    ];
  } finally {
    await connection.close();
  }
}

export function startOutbox(ctx: PluginContext, options: OutboxOptions & Reading, parts: Parts): Source {
  const { clock } = ctx;
  const { connect, dialect, mode, pollMs, channel = "" } = parts;
  const { source, maxInFlight = 2_000 } = options;
  const wanted = wantedOf(options, mode);
  const intake = new Intake<Row>(ctx, { reading: readingOf(options, wanted.columns), maxInFlight, upstream: ROWS });
  const reader =
    parts.reader?.(intake, wanted) ??
    new OutboxReader({ intake, connect, dialect, wanted, clock, log: ctx.log, source });

  /** On a connection of its own: that of the session may be in a transaction, or wait for the storage. */
  async function backlog(ending: AbortSignal) {
    const connection = await connect(ending);
    try {
      return await reader.backlog(connection);
    } finally {
      await connection.close();
    }
  }

  /** Reads what is there, then waits to be woken or for the next poll. */
  async function session({ stopping, ending, connected }: SessionLife): Promise<void> {
    const connection = await connect(stopping);
    let news = Promise.withResolvers<void>();
    const prepare = async (on: Connection): Promise<void> => {
      await reader.check(on);
      await on.listen(channel, () => news.resolve());
    };
    try {
      // No row is read yet, so that a stop need not wait for these answers.
      await unlessAborted(stopping, prepare(connection));
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

/** Makes the event of a row whose columns hold its parts, where no `map` does. */
function readingOf(options: OutboxOptions & Reading, { payload, type, key }: OutboxColumns): Reading {
  if (payload === undefined || options.map !== undefined) return options;
  const part = ({ headers }: SourceMessage, column: string | undefined): string | undefined =>
    column === undefined ? undefined : headers[column.toLowerCase()];
  return {
    ...options,
    map: (message) => ({
      type: part(message, type),
      keyId: part(message, key),
      ...(message.at !== undefined && { createdAt: new Date(message.at) }),
      dataText: message.text === "" ? "null" : message.text,
    }),
  };
}
