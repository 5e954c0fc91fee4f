/** Ends a request that comes back to the gateway because its upstream, by whatever way, is the relay itself. */
import { Problem } from "../../model/problem.ts";
import type { Log } from "../../ports/plugin.ts";
import { valuesOf, type Pairs } from "./headers.ts";

/** @param name the relay's own in `Via` @throws Problem UPSTREAM_UNAVAILABLE when the relay has forwarded it already */
export function refuseLoop(raw: Pairs, name: string, log: Pick<Log, "error">): void {
  const hops = valuesOf(raw, "via").flatMap((value) => value.split(","));
  if (!hops.some((hop) => hop.trim() === `1.1 ${name}`)) return;
  log.error("the upstream of the gateway leads back to the relay: change gateway.upstream");
  throw new Problem("UPSTREAM_UNAVAILABLE", "The upstream of this gateway leads back to the gateway itself.");
}
