/** Connects to PostgreSQL, with every wait bounded and every value read as the text that the server sent. */
import { Socket } from "node:net";
import type pg from "pg";
import type { Clock } from "../../core/ports/clock.ts";
import { endsWithin, unlessAborted } from "../../core/lib/within.ts";
import {
  CLOSE_MS,
  CONNECT_MS,
  QUERY_MS,
  type Columns,
  type Connection,
  type OpenConnection,
} from "./sql/connection.ts";

/** Quotes a name. */
export const quotedName = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** Quotes a text. Works with every setting of the server. */
export const literal = (text: string): string =>
  ` E'${text.replaceAll("\0", "").replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;

/** A connection of the client itself. */
export interface Opened {
  readonly client: pg.Client;
  /** Ends it, with the server's goodbye where that comes soon. */
  close(): Promise<void>;
  /** Drops it without a word. */
  drop(): void;
}

/** @param within how long it may take to connect, and each query, ms */
export async function openClient(
  { Client }: typeof pg,
  url: string,
  clock: Clock,
  signal: AbortSignal,
  { connectMs, queryMs }: { readonly connectMs: number; readonly queryMs: number },
): Promise<Opened> {
  const socket = new Socket();
  const client = new Client({
    connectionString: url,
    stream: () => socket,
    application_name: "relaybox",
    connectionTimeoutMillis: connectMs,
    query_timeout: queryMs,
    keepAlive: true,
    // A number may have more digits than a double holds, and JSON is passed on as it is.
    types: { getTypeParser: () => (value: unknown) => value },
  });
  // The query under way reports the error too; without a listener it ends the process.
  client.on("error", () => undefined);
  const drop = (): void => void socket.destroy();
  /** The client waits until the server closes too, and one that is gone without a word never does. */
  async function close(): Promise<void> {
    await endsWithin(clock, CLOSE_MS, client.end());
    drop();
  }
  try {
    await unlessAborted(signal, client.connect());
    signal.throwIfAborted();
  } catch (error) {
    // Nobody waits for the goodbye of a server that has not greeted yet.
    drop();
    await close();
    throw error;
  }
  return { client, close, drop };
}

export function createConnector(library: typeof pg, url: string, clock: Clock): OpenConnection {
  return async (signal) => {
    const bounds = { connectMs: CONNECT_MS, queryMs: QUERY_MS };
    const { client, close } = await openClient(library, url, clock, signal, bounds);
    const connection: Connection = {
      async rows(sql, values) {
        const result: unknown = await client.query(sql, values === undefined ? undefined : [...values]);
        const last = (Array.isArray(result) ? result.at(-1) : result) as { readonly rows: readonly Columns[] };
        return last.rows;
      },
      async listen(channel, wake) {
        for (const what of ["error", "end", "notification"] as const) client.on(what as "end", wake);
        await client.query(`LISTEN "${channel}"`);
      },
      close,
      run: async (statements) => (statements.length === 0 ? [] : connection.rows(statements.join("; "))),
    };
    return connection;
  };
}
