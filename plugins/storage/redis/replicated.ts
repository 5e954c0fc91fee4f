/** Sends scripts whose changes replicas must have too, each with a `WAIT` whose answer is checked. */
import type { Evaluate } from "./calls.ts";
import type { Client } from "./connect.ts";
import { scriptArgs } from "./script.ts";

/** Redis stops waiting for replicas after this, ms; shorter than a command may take. */
const WAIT_MS = 600;
/**
 * Writes something, also when memory is full. `WAIT` waits only for what its own connection wrote last; a script that
 * finds everything done, by a lost call on an earlier connection or by another node, writes nothing.
 */
const FENCE = `redis.call('UNLINK', KEYS[2]) redis.call('INCR', KEYS[1] .. ':fence')`;

/**
 * Returns how scripts are sent on a connection of their own, because `WAIT` delays whatever follows. A script that too
 * few replicas have was carried out, but may be lost: it rejects like a lost answer, and is repeated under its commit id.
 */
export function replicated(client: Client, tag: string, replicas: number): Evaluate | undefined {
  if (replicas === 0) return undefined;
  return async (command, sent, longest) => {
    const pipeline = client.pipeline();
    pipeline.call(command, sent);
    pipeline.call("eval", [FENCE, ...scriptArgs(tag, [])]);
    pipeline.wait(replicas, longest === undefined ? WAIT_MS : Math.round(longest / 2));
    const [done, fenced, waited] = (await pipeline.exec()) ?? [];
    const [error, reply] = done ?? [new Error("no answer"), undefined];
    if (error !== null) throw error;
    // The WAIT itself failed, or too few replicas answered: carried out here, perhaps nowhere else.
    const reached = fenced?.[0] === null && waited?.[0] === null ? Number(waited[1]) : 0;
    if (reached < replicas) throw new Error(`only ${reached} of ${replicas} replicas have it`);
    return reply;
  };
}
