/** Sends what takes longer: scripts whose changes replicas must have too, and large commits. */
import type { Clock } from "../../../core/ports/clock.ts";
import { Calls, type Evaluate, type ExclusiveTurn } from "./calls.ts";
import { CALL_MS, type Client } from "./connect.ts";
import { scriptArgs, sizeOf } from "./script.ts";

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

/** How long a large call may take for its size, ms: four times the 60 µs a change of a busy machine. */
const SIZE_MS = 500;

/**
 * Runs large commits: a connection of their own, one at a time, with as much time as their size needs.
 * @param make makes a connection whose answers may take long, when the first large call comes
 */
export function largeCalls(
  make: () => Client,
  tag: string,
  clock: Clock,
  turn: ExclusiveTurn,
  replicas: number,
): Calls["run"] {
  let own: Promise<Calls> | undefined;

  async function connect(): Promise<Calls> {
    const client = make();
    // A failed connection is retried later: until then calls find that they cannot be sent, and try again.
    await client.connect().catch(() => {});
    const evaluate = replicated(client, tag, replicas);
    return new Calls(client, tag, clock, { evaluate, patience: (args) => CALL_MS + sizeOf(args) * SIZE_MS });
  }

  return (...call) => turn.alone(async () => (await (own ??= connect())).run(...call));
}
