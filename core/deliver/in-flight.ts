/** Tracks requests in flight: a rotation is over only when nothing is under way that the old secret alone has signed. */
import { within } from "../lib/within.ts";
import type { Clock } from "../ports/clock.ts";
import type { Send } from "./send.ts";

interface InFlight {
  readonly send: Send;
  /**
   * Resolves when every attempt of the subscription that this node has in flight now has ended, at the latest after
   * `mostMs`.
   */
  drain(subscriptionId: string, mostMs: number): Promise<void>;
}

export function createInFlight(send: Send, clock: Clock): InFlight {
  const lines = new Map<string, Set<Promise<unknown>>>();
  return {
    send(sub, loaded, turn, signal) {
      // An attempt is signed when it begins: later ones use the secrets that are live then.
      const sent = send(sub, loaded, turn, signal);
      let line = lines.get(sub.id);
      if (line === undefined) lines.set(sub.id, (line = new Set()));
      line.add(sent);
      const ended = (): void => {
        line.delete(sent);
        if (line.size === 0 && lines.get(sub.id) === line) lines.delete(sub.id);
      };
      sent.then(ended, ended);
      return sent;
    },
    async drain(subscriptionId, mostMs) {
      const sent = [...(lines.get(subscriptionId) ?? [])];
      if (sent.length === 0) return;
      await within(clock, mostMs, Promise.allSettled(sent));
    },
  };
}
