/** Finds the one server that keeps this relay, and makes sure of the database on it. */
import type { Redis } from "ioredis";
import { StartError } from "../../../core/model/errors.ts";
import type { Client } from "./connect.ts";

/**
 * Returns the server that keeps the keys with this tag. In a cluster a command without a key, such as INFO, goes to any
 * node by itself, and would be answered for memory and settings that are not ours.
 */
export async function serverOf(client: Client, tag: string): Promise<Redis> {
  if (!("nodes" in client)) return client;
  const slot = Number(await client.cluster("KEYSLOT", tag));
  const keeper = client.slots[slot]?.[0];
  const server = client.nodes("master").find(({ options: { host, port } }) => `${host}:${port}` === keeper);
  if (server === undefined) throw new Error("Cluster isn't ready: no node is known that keeps the relay");
  return server;
}

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
