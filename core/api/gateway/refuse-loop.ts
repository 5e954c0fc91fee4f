/** Ends requests that come back to the gateway because its upstream, by whatever way, is the relay itself. */
import { Problem } from "../../model/problem.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/plugin.ts";
import { valuesOf, type Pairs } from "./headers.ts";

/** After a line in the log the next one comes this much later at the earliest, ms: anybody may name the relay in `Via`. */
const QUIET_MS = 60_000;

/** @throws Problem UPSTREAM_UNAVAILABLE when the relay has forwarded the request already */
type RefuseLoop = (raw: Pairs) => void;

/** @param name the relay's own in `Via` */
export function createLoopCheck(
  name: string,
  { clock, log }: { readonly clock: Pick<Clock, "monotonic">; readonly log: Pick<Log, "error"> },
): RefuseLoop {
  let quietUntil = Number.NEGATIVE_INFINITY;
  let count = 0;
  return (raw) => {
    const hops = valuesOf(raw, "via").flatMap((value) => value.split(","));
    if (!hops.some((hop) => hop.trim() === `1.1 ${name}`)) return;
    count++;
    const now = clock.monotonic();
    if (now >= quietUntil) {
      log.error("the upstream of the gateway leads back to the relay: change gateway.upstream", { count });
      quietUntil = now + QUIET_MS;
      count = 0;
    }
    const detail = "The upstream of this gateway leads back to the gateway itself.";
    throw new Problem("UPSTREAM_UNAVAILABLE", detail, { refusal: true });
  };
}
