/** Makes sure of the database on the server. */
import type { Redis } from "ioredis";
import { StartError } from "../../../core/model/errors.ts";
import type { Client } from "./connect.ts";

/**
 * The client selects the database of the URL, but goes on in database 0 when it cannot: in another relay's records.
 * @throws StartError 78
 */
export async function checkDatabase(client: Client): Promise<void> {
  const db = "nodes" in client ? undefined : client.options.db;
  if (db === undefined) return;
  try {
    await (client as Redis).select(db);
  } catch (error) {
    if (!(error instanceof Error) || error.name !== "ReplyError") throw error;
    throw new StartError(78, `this Redis has no database "${db}" for this relay: ${error.message}`);
  }
}
