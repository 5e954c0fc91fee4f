/** Composes the gateway: a guard of its own opens the configured upstream and nothing else. */
import { BroadcastChannel } from "node:worker_threads";
import { createGateway, type Gateway } from "../../api/gateway/gateway.ts";
import { limitsCheckRoutes } from "../../api/gateway/limits-check.ts";
import { createUpstreamRest, type UpstreamRest } from "../../api/gateway/rest.ts";
import { checkAllow, createGuard } from "../../guard/index.ts";
import type { Limiter } from "../../limits/limiter.ts";
import { StartError } from "../../model/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Plan } from "../../ports/plan.ts";
import type { Keys, Log, Route } from "../../ports/plugin.ts";
import type { ThreadPlace } from "../threads/node-thread.ts";

/** Requests at the upstream at once. The threads of a process share them out. */
const CONCURRENCY = 128;

/** `/v1`, and `/limits/check` where it is switched on. @throws StartError 78 when the upstream may not be called */
export function composeGateway(parts: {
  readonly plan: Plan;
  readonly clock: Clock;
  readonly log: Log;
  readonly limiter: Limiter;
  readonly keys: Pick<Keys, "publicJwk">;
  /** PEM certificates that are trusted beside the system's. */
  readonly ca: string | undefined;
  readonly thread?: Pick<ThreadPlace, "feed" | "count"> | undefined;
}): Gateway {
  const { plan, clock, log, limiter: limits, keys, ca, thread } = parts;
  const rows = Object.keys(plan.limits);
  const rest = plan.gateway && thread && sharedRest(clock, thread);
  const { routes, dispose: end } = createGateway({
    rows,
    upstream: plan.gateway && {
      ...upstreamOf(plan.gateway, clock, ca),
      concurrency: Math.max(1, Math.floor(CONCURRENCY / (thread?.count ?? 1))),
    },
    limits,
    rest,
    trustedProxies: plan.server.trustedProxies,
    name: `relaybox-${String(keys.publicJwk()["kid"]).slice(0, 12)}`,
    clock,
    log,
  });
  const dispose = async (): Promise<void> => {
    await end();
    rest?.close();
  };
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

/** `row` and `key` are absent where all requests have to stop. */
interface Said {
  readonly row?: string;
  readonly key?: string;
  readonly ms: number;
}

/** Shares what one thread learns of a tired upstream with the other threads of the process, over a broadcast channel. */
function sharedRest(
  clock: Pick<Clock, "monotonic">,
  { feed }: Pick<ThreadPlace, "feed">,
): UpstreamRest & { close(): void } {
  const own = createUpstreamRest(clock);
  const channel = new BroadcastChannel(`${feed} rest`);
  channel.onmessage = (event: unknown) => {
    const { row, key, ms } = (event as { readonly data: Said }).data;
    if (row === undefined || key === undefined) own.all(ms);
    else own.row(row, key, ms);
  };
  channel.unref();
  let open = true;
  const say = (said: Said): void => {
    if (open) channel.postMessage(said);
  };
  return {
    leftMs: own.leftMs,
    row(row, key, ms) {
      own.row(row, key, ms);
      say({ row, key, ms });
    },
    all(ms) {
      own.all(ms);
      say({ ms });
    },
    close() {
      open = false;
      channel.close();
    },
  };
}
