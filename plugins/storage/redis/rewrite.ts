/** Asks Redis to rewrite its append-only file after erasures: until then the file has what was deleted. */
import type { Log } from "../../../core/ports/plugin.ts";
import type { Client } from "./connect.ts";
import { serverOf } from "./server.ts";

/** Least time between two rewrites that any node asks for, ms. */
const REST_MS = 3_600_000;

/** Asks for it if something was erased since the last time, at most once in an hour over all nodes. */
export function createRewrite(client: Client, tag: string, log: Pick<Log, "warn">): () => Promise<void> {
  let refused = false;

  return async () => {
    const [erased, rewritten] = await client.mget(`${tag}:erased`, `${tag}:rewritten`);
    if (erased === rewritten || typeof erased !== "string") return;
    if ((await client.set(`${tag}:rewriting`, "", "PX", REST_MS, "NX")) === null) return;
    try {
      await (await serverOf(client, tag)).bgrewriteaof();
      await client.set(`${tag}:rewritten`, erased);
    } catch (error) {
      // One that is under way may have begun too early; the next is asked for in an hour.
      if (!refused) log.warn("Redis keeps erased data in its append-only file for now", { reason: String(error) });
      refused = true;
    }
  };
}
