/** The source of webhooks on an intake of its own, and requests as providers send them. */
import { createHmac } from "node:crypto";
import type { Clock } from "../../core/ports/clock.ts";
import type { Route, RouteReply, RouteRequest } from "../../core/ports/route.ts";
import type { Source } from "../../core/ports/source.ts";
import { type WebhookEndpoint, webhooks } from "../../plugins/source/webhooks.ts";
import { context } from "./context.ts";
import { desk, type Desk } from "./intake.ts";
import { quietLog, quietMetrics } from "./quiet.ts";
import { answered, routeRequest } from "./request.ts";

/** A secret that is none. */
export const SECRET = "a secret of the tests";

export const hexOf = (secret: string, ...signed: readonly string[]): string =>
  createHmac("sha256", secret).update(signed.join("")).digest("hex");

export interface Sent {
  readonly body: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  readonly path?: string;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly address?: string;
}

export const requestOf = ({ body, headers = {}, query = "", ...more }: Sent, path: string): RouteRequest => ({
  ...routeRequest(body, { "content-type": "application/json", ...headers }),
  path,
  query: new URLSearchParams(query),
  ...more,
});

export interface WebhooksBench extends Desk {
  readonly source: Source;
  readonly said: ReturnType<typeof quietLog>["lines"];
  readonly counts: ReturnType<typeof quietMetrics>["counted"];
  /** Sends to the first path, unless it says otherwise. */
  send(sent: Sent): Promise<RouteReply>;
  options(headers: Readonly<Record<string, string>>): Promise<RouteReply>;
}

/** @param clock its wall clock says when things are signed */
export async function webhooksBench(
  endpoints: readonly WebhookEndpoint[],
  clock?: Clock,
  secret = (path: string): string => `secret of ${path}`,
): Promise<WebhooksBench> {
  const made = desk();
  const [log, metrics] = [quietLog(), quietMetrics()];
  const source = await webhooks(endpoints).setup(context({ clock: clock ?? made.clock, log, metrics, secret }));
  await source.start(made.intake.accept, { durability: "fsync", admit: () => made.intake.admit() });
  const route = (method: Route["method"], path: string): Route =>
    source.routes?.find((one) => one.method === method && one.path === path) as Route;
  const first = endpoints[0]?.path ?? "";
  return Object.assign(made, {
    source,
    said: log.lines,
    counts: metrics.counted,
    send: (sent: Sent) => answered(route("POST", first), requestOf(sent, first)),
    options: (headers: Readonly<Record<string, string>>) =>
      answered(route("OPTIONS", first), requestOf({ body: "", headers }, first)),
  });
}
