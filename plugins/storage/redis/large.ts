/** Runs large commits: a connection of their own, one at a time, with as much time as their size needs. */
import type { Clock } from "../../../core/ports/clock.ts";
import { Calls, type ExclusiveTurn } from "./calls.ts";
import { CALL_MS, type Client } from "./connect.ts";
import { replicated } from "./replicated.ts";
import { sizeOf } from "./script.ts";

/**
 * How long a large call may take for its size, ms. Measured: 13 µs a change of five arguments, 60 µs on a busy machine;
 * this is four times that.
 */
const SIZE_MS = 500;

/** @param make makes a connection whose answers may take long, when the first large call comes */
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
