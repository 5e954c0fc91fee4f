/** A connection to a database that is asked in SQL. */
export interface Connection {
  /** Runs one statement. Resolves to its rows. */
  rows(sql: string, values?: readonly unknown[]): Promise<readonly Columns[]>;
  /** Runs statements one after the other, up to one that fails. Resolves to the rows of the last one. */
  run(statements: readonly string[]): Promise<readonly Columns[]>;
  /** Calls `wake` when the connection breaks, and at each message to the channel where the database has such. */
  listen(channel: string, wake: () => void): Promise<void>;
  close(): Promise<void>;
}

/** A row by the names of its columns: texts as the server sent them, bytes as `\x` and hexadecimal digits. */
export type Columns = Readonly<Record<string, string | null>>;

/** Opens a connection. @param signal gives the attempt up at once; it does nothing to a connection that is open */
export type OpenConnection = (signal: AbortSignal) => Promise<Connection>;

/** Longest waits for a server, ms. */
export const CONNECT_MS = 10_000;
export const QUERY_MS = 60_000;
export const CLOSE_MS = 2_000;
