/** Runs large commits: a connection of their own, one at a time, with as much time as their size needs. */
import type { Clock } from "../../../core/ports/clock.ts";
import { type CallOptions, calls, type Calls, type Evaluate, type Script } from "./calls.ts";
import { CALL_MS, type Client } from "./connect.ts";
import type { ExclusiveTurn } from "./exclusive-turn.ts";
import { type Args, sizeOf } from "./packed.ts";

/** Measured: 13 µs a change of five arguments, 60 µs on a busy machine; this is four times that. */
const ARG_MS = 0.05;
const CHAR_MS = 1 / 10_000;

/** Returns how long a large call may take, ms. */
export const patienceFor = (args: Args): number => {
  const size = sizeOf(args);
  return CALL_MS + size.args * ARG_MS + size.chars * CHAR_MS;
};

export interface Large {
  run(script: Script, args: Args, options: CallOptions): Promise<unknown>;
  /** Closes the connection, once nothing is under way. */
  end(): void;
}

/**
 * @param make makes a connection whose answers may take long, when the first large call comes
 * @param evaluate runs a script on it; default: directly
 */
export function large(
  make: () => Client,
  tag: string,
  clock: Clock,
  gate: ExclusiveTurn,
  evaluate?: (client: Client) => Evaluate,
): Large {
  let client: Client | undefined;
  let own: Calls | undefined;

  async function connected(): Promise<Calls> {
    if (own !== undefined) return own;
    client = make();
    own = calls(client, tag, clock, { evaluate: evaluate?.(client), patience: patienceFor });
    // A failed connection is retried later: until then calls find that they cannot be sent, and try again.
    await client.connect().catch(() => {});
    return own;
  }

  return {
    run: (script, args, options) => gate.alone(async () => (await connected()).run(script, args, options)),
    end: () => client?.disconnect(),
  };
}
