/** Stats: of a key for charts, and of the relay for operators. */
import type { Chart, SubscriptionStats, KeyStats, StatsRange, Sums } from "../../stats/query.ts";
import { isoTime } from "../../lib/time.ts";
import { operation } from "../http/operation.ts";
import type { AnyOperation } from "../http/operation.ts";
import { statsQuery, statusQuery } from "./schemas.ts";
import { figures as shape, keyStats } from "./shapes.ts";
import { listedView } from "./views.ts";

export interface StatsSource {
  /** Of one key, over a range, for charts; of one of its subscriptions, when that is named. */
  stats?(keyId: string, range: StatsRange, subscriptionId?: string): Promise<KeyStats>;
  /** Of one key over a range, without charts. */
  sums?(keyId: string, range: StatsRange): Promise<Sums>;
  /** Nodes, storage, backlog. */
  status?(): Promise<Readonly<Record<string, unknown>>>;
  /** Of the whole relay, for charts. */
  relay?(range: StatsRange): Promise<Chart>;
}

export function statsOperations(deps: { readonly figures?: StatsSource | undefined }): readonly AnyOperation[] {
  const { figures = {} } = deps;
  const operations: AnyOperation[] = [];
  const { stats, status, relay } = figures;
  if (stats !== undefined) {
    operations.push(
      operation({
        method: "GET",
        path: "/api-keys/{keyId}/stats",
        summary: "Figures of a key for charts, and how its subscriptions are",
        tag: "Figures",
        portal: true,
        query: statsQuery,
        reply: { status: 200, data: keyStats },
        async handle({ keyId, query }) {
          const { subscriptions, left, ...rest } = await stats(keyId, query.range, query.subscriptionId);
          const more = left > 0 ? { subscriptionsLeft: left } : {};
          return { data: { ...chartView(rest), subscriptions: subscriptions.map(glanceView), ...more } };
        },
      }),
    );
  }
  if (status !== undefined) {
    operations.push(
      operation({
        method: "GET",
        path: "/relay/status",
        summary: "Nodes, storage and backlog; for tokens that own every key",
        tag: "Figures",
        everyKey: true,
        query: statusQuery,
        reply: { status: 200, data: shape },
        async handle({ query: { range } }) {
          const now = await status();
          if (range === undefined || relay === undefined) return { data: now };
          return { data: { ...now, figures: chartView(await relay(range)) } };
        },
      }),
    );
  }
  return operations;
}

const chartView = (chart: Chart): object => ({ ...chart, from: isoTime(chart.from) });
const time = (ms: number | undefined): string | undefined => (ms === undefined ? undefined : isoTime(ms));

function glanceView({ subscription, health, last, ...figures }: SubscriptionStats): unknown {
  const newest = last?.attempts.at(-1);
  return {
    ...(listedView(subscription) as object),
    figures,
    failuresInARow: health.failures,
    failingSince: time(health.failingSince),
    restsUntil: time(health.restsUntil),
    lastDelivery: last && {
      eventId: last.eventId,
      status: last.status,
      at: isoTime(last.updatedAt),
      statusCode: newest?.statusCode,
      error: newest?.error,
    },
  };
}
