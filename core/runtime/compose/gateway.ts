/** Composes the gateway: a guard of its own opens the configured upstream and nothing else. */
import { createGateway, type Gateway } from "../../api/gateway/gateway.ts";
import { limitsCheckRoutes } from "../../api/gateway/limits-check.ts";
import { checkAllow, createGuard } from "../../guard/index.ts";
import { StartError } from "../../model/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Route } from "../../ports/plugin.ts";
import type { OpenPorts, SetupContext } from "./open-ports.ts";

/** `/v1`, and `/limits/check` where it is switched on. @throws StartError 78 when the upstream may not be called */
export function composeGateway(
  plan: Plan,
  { limiter: limits, keys, ca }: Pick<OpenPorts, "limiter" | "keys" | "ca">,
  { clock, log }: Pick<SetupContext, "clock" | "log">,
): Gateway {
  const rows = Object.keys(plan.limits);
  const { routes, dispose } = createGateway({
    rows,
    upstream: plan.gateway && upstreamOf(plan.gateway, clock, plan.guard, ca),
    limits,
    trustedProxies: plan.server.trustedProxies,
    name: `relaybox-${String(keys.publicJwk()["kid"]).slice(0, 12)}`,
    clock,
    log,
  });
  if (plan.limitsCheck === undefined) return { routes, dispose };
  const { token } = plan.limitsCheck;
  const check = limitsCheckRoutes({ token, rows, keyHeader: plan.gateway?.keyHeader, limits, clock });
  return { routes: [...routes, ...check], dispose };
}

/** The routes that lead somewhere: without an upstream `/v1` is `GET /v1/health` alone. */
export const servedRoutes = (routes: readonly Route[], { gateway }: Pick<Plan, "gateway">): readonly Route[] =>
  gateway === undefined ? routes.filter(({ path: at }) => !at.startsWith("/v1/") || at === "/v1/health") : routes;

type UpstreamDeps = NonNullable<Parameters<typeof createGateway>[0]["upstream"]>;

function upstreamOf(
  { upstream, keyHeader }: NonNullable<Plan["gateway"]>,
  clock: Clock,
  { nat64 }: Plan["guard"],
  ca: string | undefined,
): UpstreamDeps {
  const url = new URL(upstream);
  const host = url.hostname.replace(/\.$/, "");
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  const allow = [`${host}:${port}`];
  const [problem] = checkAllow(allow);
  if (problem !== undefined) throw new StartError(78, `gateway.upstream: ${problem.message}`);
  const guard = createGuard({ allow, ports: [], nat64, clock, ...(ca === undefined ? {} : { ca }) });
  return { url, keyHeader, connect: guard.connect };
}
