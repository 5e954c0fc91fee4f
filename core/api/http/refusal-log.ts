/** Logs refused requests: a line each, within a bound per minute for one address and for all, and a count of the rest. */
import { addressGroup } from "../../model/address.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, LogFields } from "../../ports/plugin.ts";

const WINDOW_MS = 60_000;
/** Lines a minute for one address: a flood from it must neither fill the disk nor hide the refusals of others. */
export const LINES_OF_ONE = 20;
/** Lines a minute of all addresses together; so many addresses are remembered at most. */
export const LINES_OF_ALL = 200;

/** Logs one refused request, unless its minute is full. @param address the client's */
export type LogRefusal = (address: string, fields: LogFields) => void;

export function createRefusalLog({ clock, log }: { readonly clock: Clock; readonly log: Log }): LogRefusal {
  let endsAt = Number.NEGATIVE_INFINITY;
  let written = 0;
  let unlogged = 0;
  const byAddress = new Map<string, number>();

  function tellUnlogged(): void {
    if (unlogged > 0) log.warn("more requests were refused than are logged", { count: unlogged });
    unlogged = 0;
  }

  /** At the end of the minute, also when nothing more is refused. */
  async function tellLater(): Promise<void> {
    await clock.sleep(clock.now() + WINDOW_MS);
    tellUnlogged();
  }

  return (address, fields) => {
    const now = clock.monotonic();
    if (now >= endsAt) {
      tellUnlogged();
      endsAt = now + WINDOW_MS;
      written = 0;
      byAddress.clear();
    }
    const group = addressGroup(address);
    const count = byAddress.get(group) ?? 0;
    if (written >= LINES_OF_ALL || count >= LINES_OF_ONE) {
      if (unlogged++ === 0) void tellLater();
      return;
    }
    written++;
    byAddress.set(group, count + 1);
    log.info("request refused", { ...fields, address });
  };
}
