/** Figures: of a key for charts, and of the relay for operators. */
import { operation } from "./endpoint.ts";
import type { AnyOperation } from "./endpoint.ts";
import { statsQuery } from "./schemas.ts";
import { figures as shape } from "./shapes.ts";

export type Range = "1h" | "24h" | "7d";

export interface Figures {
  /** Of one key, over a range, for charts. */
  stats?(keyId: string, range: Range): Promise<Readonly<Record<string, unknown>>>;
  /** Nodes, storage, backlog. */
  status?(): Promise<Readonly<Record<string, unknown>>>;
}

export function figureOperations(deps: { readonly figures?: Figures | undefined }): readonly AnyOperation[] {
  const { figures = {} } = deps;
  const operations: AnyOperation[] = [];
  const { stats, status } = figures;
  if (stats !== undefined) {
    operations.push(
      operation({
        method: "GET",
        path: "/api-keys/{keyId}/stats",
        summary: "Figures of a key for charts",
        tag: "Figures",
        query: statsQuery,
        reply: { status: 200, data: shape },
        handle: async ({ keyId, query }) => ({ data: await stats(keyId, query.range) }),
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
        reply: { status: 200, data: shape },
        handle: async () => ({ data: await status() }),
      }),
    );
  }
  return operations;
}
