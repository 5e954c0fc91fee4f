/** The gateway, composed: a guard of its own opens the configured upstream, and nothing else. */
import { createGateway, type Gateway } from "../../api/gateway/gateway.ts";
import { limitsCheckRoutes } from "../../api/gateway/limits-check.ts";
import { checkAllow, createGuard } from "../../guard/index.ts";
import type { Limiter } from "../../limits/limiter.ts";
import { StartError } from "../../model/errors.ts";
import type { Route } from "../../ports/plugin.ts";
import * as path from "./delivery-path.ts";
import type { Plan } from "../../ports/plan.ts";
import { token, type Container } from "./container.ts";

export const LIMITER = token<Limiter>("limiter");
const GATEWAY = token<Gateway>("gateway");

/** @param ca PEM certificates that are trusted beside the system's */
export function registerGateway(house: Container, plan: Plan, ca: string | undefined): void {
  house.make(GATEWAY, (get) =>
    createGateway({
      rows: Object.keys(plan.limits),
      upstream: plan.gateway && upstreamOf(plan.gateway, get(path.CLOCK_TOKEN), ca),
      limits: get(LIMITER),
      trustedProxies: plan.server.trustedProxies,
      clock: get(path.CLOCK_TOKEN),
      log: get(path.LOG),
    }),
  );
}

/** `/v1`, and `/limits/check` where it is switched on. */
export function composedGatewayRoutes(house: Container, { limitsCheck, limits, gateway }: Plan): readonly Route[] {
  const check =
    limitsCheck &&
    limitsCheckRoutes({
      token: limitsCheck.token,
      rows: Object.keys(limits),
      keyHeader: gateway?.keyHeader,
      limits: house.get(LIMITER),
      clock: house.get(path.CLOCK_TOKEN),
    });
  return [...house.get(GATEWAY).routes, ...(check ?? [])];
}

/** Of those, the ones that lead somewhere: without an upstream `/v1` is `GET /v1/health` alone. */
export const servedRoutes = (routes: readonly Route[], { gateway }: Pick<Plan, "gateway">): readonly Route[] =>
  gateway === undefined ? routes.filter(({ path: at }) => !at.startsWith("/v1/") || at === "/v1/health") : routes;

export const closeGateway = (house: Container): Promise<void> => house.get(GATEWAY).dispose();

type UpstreamDeps = NonNullable<Parameters<typeof createGateway>[0]["upstream"]>;

function upstreamOf(
  { upstream, keyHeader }: NonNullable<Plan["gateway"]>,
  clock: Parameters<typeof createGuard>[0]["clock"],
  ca: string | undefined,
): UpstreamDeps {
  const url = new URL(upstream);
  const host = url.hostname.replace(/\.$/, "");
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  const allow = [`${host}:${port}`];
  const [problem] = checkAllow(allow);
  if (problem !== undefined) throw new StartError(78, `gateway.upstream: ${problem.message}`);
  const guard = createGuard({ allow, ports: [], clock, ...(ca === undefined ? {} : { ca }) });
  return { url, keyHeader, connect: guard.connect };
}
