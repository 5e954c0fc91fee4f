/** Connects to MySQL or MariaDB, with every wait bounded, in UTC and in UTF-8. */
import { connect as dial } from "node:net";
import type mysql from "mysql2";
import type { Clock } from "../../core/ports/clock.ts";
import { endsWithin, unlessAborted } from "../../core/lib/within.ts";
import { CLOSE_MS, CONNECT_MS, QUERY_MS, type Columns, type OpenConnection } from "./sql/connection.ts";

/** What a certificate is judged by, as PEM texts. */
export interface MysqlTls {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

const PORT = 3306;
/** Locks rows and nothing between them, so that others insert meanwhile. */
const SET_UP = ["SET time_zone = '+00:00'", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"];

/** Quotes a name. */
export const backticked = (name: string): string => `\`${name.replaceAll("`", "``")}\``;

/** Writes a text as its bytes, which every setting of the server reads alike. */
export const mysqlText = (text: string): string =>
  text === "" ? "''" : `_utf8mb4 x'${Buffer.from(text).toString("hex")}'`;

export function createMysqlConnector(
  { createConnection }: Pick<typeof mysql, "createConnection">,
  url: string,
  tls: MysqlTls | undefined,
  clock: Clock,
): OpenConnection {
  return async (signal) => {
    const { hostname, port, username, password, pathname } = new URL(url);
    const host = hostname.replace(/^\[(.*)\]$/, "$1");
    const socket = dial({ host, port: Number(port || PORT), keepAlive: true, noDelay: true });
    const client = createConnection({
      ...{ host, port: Number(port || PORT), stream: () => socket },
      ...{ user: decodeURIComponent(username), password: decodeURIComponent(password) },
      database: decodeURIComponent(pathname.slice(1)),
      charset: "utf8mb4",
      connectTimeout: CONNECT_MS,
      // A number may have more digits than a double holds, and JSON is passed on as it is.
      ...{ supportBigNumbers: true, bigNumberStrings: true, dateStrings: true, jsonStrings: true },
      ...(tls && { ssl: { ...tls, rejectUnauthorized: true, verifyIdentity: true } }),
    });
    let wake = (): void => {};
    // The query under way reports the error too; without a listener it ends the process.
    client.on("error", () => wake());
    client.on("end", () => wake());
    const query = (sql: string): Promise<readonly Columns[]> =>
      new Promise((resolve, reject) => {
        client.query({ sql, timeout: QUERY_MS }, (error, found) => {
          if (error !== null) reject(error);
          else resolve(Array.isArray(found) ? found.map(columnsOf) : []);
        });
      });
    async function close(): Promise<void> {
      await endsWithin(clock, CLOSE_MS, new Promise<void>((closed) => client.end(() => closed())));
      client.destroy();
      socket.destroy();
    }
    try {
      await unlessAborted(
        signal,
        new Promise<void>((open, refuse) => client.connect((error) => (error ? refuse(error) : open()))),
      );
      signal.throwIfAborted();
      for (const sql of SET_UP) {
        await unlessAborted(signal, query(sql));
        signal.throwIfAborted();
      }
    } catch (error) {
      // Nobody waits for the goodbye of a server that has not greeted yet.
      client.destroy();
      socket.destroy();
      throw error;
    }
    return {
      rows: query,
      async run(statements) {
        let found: readonly Columns[] = [];
        for (const sql of statements) found = await query(sql);
        return found;
      },
      listen: async (_, given) => void (wake = given),
      close,
    };
  };
}

/** Returns the values as texts; bytes as `\x` and their hexadecimal digits. */
function columnsOf(row: unknown): Columns {
  const columns = row as Record<string, unknown>;
  for (const name in columns) {
    const value = columns[name];
    if (typeof value === "string" || value === null) continue;
    columns[name] = Buffer.isBuffer(value) ? `\\x${value.toString("hex")}` : String(value as number);
  }
  return columns as Columns;
}
