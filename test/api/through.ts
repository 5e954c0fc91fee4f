// The gateway and /limits/check as routes of a server, before an upstream that answers in every way that is passed on.
import { createGateway } from "../../core/api/gateway/gateway.ts";
import { limitsCheckRoutes } from "../../core/api/gateway/limits-check.ts";
import { createGuard } from "../../core/guard/index.ts";
import { Limiter } from "../../core/limits/limiter.ts";
import type { Route } from "../../core/ports/plugin.ts";
import { defaultRows } from "../../config/limits.ts";
import { createCounters } from "../../plugins/storage/embedded/counters.ts";
import { testClock } from "../support/clock.ts";
import { CHECK_TOKEN, startUpstream } from "../support/gateway.ts";
import { quietLog } from "../support/quiet.ts";

export interface Through extends AsyncDisposable {
  readonly routes: readonly Route[];
}

/** The upstream's answers, by turns; 429 and 503 reach the client in the relay's words. */
const ANSWERS: readonly (readonly [status: number, type: string, text: string])[] = [
  [200, "application/json", "{}"],
  [201, "text/plain", "made"],
  [204, "", ""],
  [400, "application/json", '{"error":"no"}'],
  [401, "application/json", '{"error":"who"}'],
  [404, "text/html", "<p>"],
  [418, "application/problem+json", "{}"],
  [429, "text/plain", "slower"],
  [503, "text/plain", "later"],
];

/** Two operations are soon used up, for nobody moves the clock; the others have no row. */
export async function startThrough(): Promise<Through> {
  let turn = 0;
  const upstream = await startUpstream((_req, res) => {
    const [status, type, text] = ANSWERS[turn++ % ANSWERS.length] as (typeof ANSWERS)[number];
    res.writeHead(status, type === "" ? {} : { "content-type": type }).end(text);
  });
  const clock = testClock();
  const names = Object.keys(defaultRows);
  const few = { perMinute: 4, per5s: 3 };
  const limits = new Limiter({
    counters: createCounters(clock),
    rows: { "GET /v1/scopes": few, "POST /v1/links/create": few },
    abuse: false,
    clock,
  });
  // The gateway's own time goes on, so that a wait that the upstream asks for ends: the windows stand still.
  let looks = 0;
  const passing = { ...clock, monotonic: () => (looks += 500) };
  const url = new URL(upstream.url);
  const { connect } = createGuard({ allow: [url.host], ports: [], clock });
  const keyHeader = "X-Client-Key";
  const gateway = createGateway({
    rows: names,
    upstream: { url, connect, keyHeader },
    limits,
    trustedProxies: [],
    clock: passing,
    log: quietLog(),
  });
  return {
    routes: [...gateway.routes, ...limitsCheckRoutes({ token: CHECK_TOKEN, rows: names, keyHeader, limits, clock })],
    async [Symbol.asyncDispose]() {
      await gateway.dispose();
      await upstream[Symbol.asyncDispose]();
    },
  };
}
