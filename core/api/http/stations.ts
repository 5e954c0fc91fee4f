/** The stations in front of an endpoint, as the middleware of its route, in the order of the checks. */
import type { Middleware } from "h3";
import { addressGroup } from "../../lib/address.ts";
import type { Problem } from "../../model/problem.ts";
import type { Principal } from "../../ports/auth.ts";
import type { RouteReply } from "../../ports/route.ts";
import { checkAccess, checkPortal } from "./access.ts";
import { authenticated, type CheckDeps, owns, readAsk } from "./checks.ts";
import { type Exchange, exchangeOf } from "./call.ts";
import type { Endpoint, ExchangeDeps } from "./exchange.ts";
import type { AnyOperation } from "./operation.ts";
import { pathReader, segmentsOf } from "./paths.ts";
import { envelope, overLimit } from "./reply.ts";

interface Stations {
  /** Throws what ends the request. */
  before(endpoint: Endpoint): Middleware;
  /** Runs an operation. `undefined` when it has written the whole answer itself. */
  handle(operation: AnyOperation, exchange: Exchange): Promise<RouteReply | undefined>;
}

/** @param noRoute the problem of a path that is spelled otherwise */
export function createStations(deps: ExchangeDeps, noRoute: (path: string) => Problem): Stations {
  const { auth, limits, clock, trail = () => Promise.resolve() } = deps;
  const checks: CheckDeps = { ...deps, refused: trail };

  /** Puts on the audit trail, like other refusals, that a reader or the holder of a portal link may not do this. */
  async function noteForbidden(route: string, { call, principal, caller }: Exchange): Promise<void> {
    const who = principal ?? (caller as Principal | undefined);
    if (who?.sub === undefined) return;
    const { keyId = "", subscriptionId, eventId } = call.params;
    const actor = { sub: who.sub, address: call.address, requestId: call.requestId };
    const target = (subscriptionId ?? eventId ?? keyId).slice(0, 128);
    const facts = { action: "access", target, detail: route } as const;
    await trail({ ...facts, actor, keys: owns(who, keyId) ? [keyId] : "*" }, `${who.sub} ${route} ${keyId}`);
  }

  return {
    before({ operation, route, method, path }) {
      const read = path.includes("{") ? pathReader(path) : undefined;
      const row = operation ? (operation.limit ?? `${method} ${path}`) : route.limit;
      // One middleware: h3 makes two promises and two closures of each.
      return async (event) => {
        const exchange = exchangeOf(event);
        const { call } = exchange;
        const params = read === undefined ? (call.path === path ? {} : undefined) : read(segmentsOf(call.path));
        if (params === undefined) throw noRoute(call.path);
        call.params = params;
        exchange.where = path;
        if (operation) exchange.principal = await authenticated(auth, call);
        else if (route.identify) Object.assign(exchange, await route.identify(call));
        const { principal, counted, access } = exchange;
        if (row !== undefined && row !== false) {
          const verdict = await limits.check(row, principal?.sub ?? counted ?? addressGroup(call.address));
          exchange.verdict = verdict;
          exchange.limitHeaders = verdict?.headers;
          if (verdict?.code) throw overLimit(verdict);
        }
        try {
          checkAccess(operation ?? route, principal ? principal.access : access);
          if (principal) checkPortal(operation ?? {}, principal);
        } catch (error) {
          await noteForbidden(`${call.method} ${path}`, exchange);
          throw error;
        }
      };
    },

    async handle(operation, { call, principal, limitHeaders }) {
      const ask = await readAsk(operation, call, principal as Principal, checks);
      const answered = await operation.handle(ask);
      if (!("stream" in answered)) return envelope({ status: operation.reply.status, ...answered }, clock.now());
      await answered.stream(call, { ...limitHeaders, "X-Request-Id": call.requestId });
      return undefined;
    },
  };
}
