// The end of a torture: all is well again, and whatever is due must be attempted. What is not is overdue, and a failure.
import { accessToken, type Relay } from "./relay.ts";
import { sleep } from "./process.ts";
import type { Receivers } from "./receivers.ts";

/** Of what is pending when nothing has been attempted for `silentMs` although everybody is well. */
export interface Drained {
  /** Deliveries that were still waiting or leased when patience ended; 0 when all came to an end. */
  readonly left: number;
  readonly tookMs: number;
}

const LOOK_MS = 100;
/** However much is waiting: by then it has come to an end. */
const MOST_MS = 600_000;

/**
 * Resolves when nothing is pending, or when no attempt has been made for `silentMs` while something is: a machine that is
 * busy with a long backlog goes on making attempts, a delivery that is stuck does not.
 */
export async function drained(relays: readonly Relay[], receivers: Receivers, silentMs: number): Promise<Drained> {
  const began = performance.now();
  const token = await accessToken();
  for (;;) {
    const counts = await Promise.all(relays.map((relay) => backlog(relay, token)));
    const left = Math.max(...counts);
    const now = performance.now();
    const quietMs = now - Math.max(began, receivers.lastAt());
    if (left === 0 || quietMs > silentMs || now - began > MOST_MS) return { left, tookMs: now - began };
    await sleep(LOOK_MS);
  }
}

async function backlog(relay: Relay, token: string): Promise<number> {
  try {
    const answer = await fetch(`${relay.url}/relay/status`, { headers: { authorization: `Bearer ${token}` } });
    const { data } = (await answer.json()) as {
      readonly data?: { readonly backlog: { readonly waiting: number; readonly leased: number } };
    };
    return data === undefined ? 1 : data.backlog.waiting + data.backlog.leased;
  } catch {
    return 1;
  }
}
