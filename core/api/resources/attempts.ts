/** The attempts of one delivery, those before its replays too. */
import { z } from "zod";
import type { AttemptHistory } from "../../history/attempts.ts";
import { notFound } from "../http/checks.ts";
import type { Cursors } from "../http/cursor.ts";
import { operation } from "../http/operation.ts";
import type { AnyOperation } from "../http/operation.ts";
import { DEFAULT_LIMIT, pageQuery } from "./schemas.ts";
import { attempt } from "./shapes.ts";
import { attemptView } from "./views.ts";

export const ATTEMPTS_PATH = "/api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/attempts";

export function attemptOperations(deps: {
  readonly attempts: AttemptHistory;
  /** Cursors that hold a number. */
  readonly places: Cursors;
}): readonly AnyOperation[] {
  const { attempts, places } = deps;
  return [
    operation({
      method: "GET",
      path: ATTEMPTS_PATH,
      summary: "List the attempts of a delivery over all its replays, newest first",
      tag: "Deliveries",
      query: pageQuery,
      reply: { status: 200, data: z.array(attempt), paged: true },
      async handle({ keyId, params, query }) {
        const { cursor, limit = DEFAULT_LIMIT } = query;
        const { eventId = "", subscriptionId = "" } = params;
        const list = `attempts:${keyId}:${eventId}:${subscriptionId}`;
        const place = places.read(cursor, list);
        const before = place === undefined ? undefined : Number(place);
        const page = await attempts.page(keyId, eventId, subscriptionId, { before, limit });
        if (page === undefined) throw notFound();
        const { delivery, next } = page;
        return {
          data: page.attempts.map((one) => attemptView(delivery, one)),
          nextCursor: places.write(next === undefined ? undefined : String(next), list),
        };
      },
    }),
  ];
}
