/** What needs attention: of a key, of the whole relay; and its acknowledgement. */
import { z } from "zod";
import type { Noted, Parts } from "../../attention/attention.ts";
import { ATTENTION_STATES } from "../../attention/judge.ts";
import { isoTime } from "../../lib/time.ts";
import type { Actor } from "../../model/audit.ts";
import { deliveryId } from "../../model/delivery.ts";
import { isKeyId } from "../../model/names.ts";
import { Problem } from "../../model/problem.ts";
import { WHOLE_RELAY } from "../../model/schema.ts";
import type { Principal } from "../../ports/auth.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import type { ResourceDeps } from "./deps.ts";
import { attemptErrors, note, time } from "./fields.ts";
import { createCursors, DEFAULT_LIMIT, pageQuery } from "./lists.ts";
import { subscriptionName } from "./subscription-schema.ts";
import { namesOf } from "./subscriptions.ts";

const operation = operationsOf("Figures");

const failures = z
  .strictObject({
    error: attemptErrors.optional(),
    statusCode: z.int().optional(),
    detail: note(
      z.string().optional(),
      "Why, without addresses; of deliveries that were ended without an attempt, how.",
    ),
    count: note(z.int(), "Deliveries whose last attempt failed so, among the newest that were looked at."),
    first: time,
    last: time,
    example: note(z.strictObject({ eventId: z.string(), deliveryId: z.string() }), "The newest of them."),
  })
  .meta({ id: "AlikeFailures" });
export const shownAttention = z
  .strictObject({
    id: note(z.string(), "Names it for an acknowledgement."),
    state: z.enum(ATTENTION_STATES),
    severity: z.enum(["error", "warning"]),
    keyId: z.string().optional(),
    subscriptionId: z.string().optional(),
    subscriptionName,
    part: note(z.string().optional(), "The part of the relay, as `/readyz` names it, on the `node`."),
    node: z.string().optional(),
    reason: z.string(),
    help: note(z.string(), "What helps."),
    since: time.optional(),
    nextAttemptAt: note(time.optional(), "When an endpoint that is down is tried next."),
    endsAt: note(time.optional(), "When the certificate, or the old secret, ends."),
    waiting: note(z.int().optional(), "Deliveries that wait."),
    failed: note(z.int().optional(), "Deliveries that have failed for good within seven days, counted up to a bound."),
    failedMore: note(z.literal(true).optional(), "The bound was reached: there may be more."),
    failures: note(z.array(failures).optional(), "Failures that are alike together; the newest first."),
    acknowledged: note(
      z.strictObject({ at: time, by: z.string().optional() }).optional(),
      "Somebody knows of it, and since then nothing new has come to it. Portal links do not see who.",
    ),
  })
  .meta({ id: "Attention" });

const acknowledgement = {
  body: z
    .strictObject({
      id: note(z.string().min(1).max(400), "As the list names it."),
      acknowledged: note(z.boolean().default(true), "`false` takes an acknowledgement back."),
    })
    .meta({ id: "Acknowledge" }),
  reply: {
    status: 200,
    data: z.strictObject({ id: z.string(), acknowledged: z.boolean() }).meta({ id: "Acknowledged" }),
  },
  problems: ["CONFLICT"],
} as const;

export function attentionOperations(deps: ResourceDeps): readonly AnyOperation[] {
  const { attention, figures, keys } = deps;
  const cursors = createCursors(keys, isKeyId);

  async function acknowledge(
    from: string | Parts,
    body: z.output<typeof acknowledgement.body>,
    actor: Actor,
  ): Promise<{ readonly data: object }> {
    if (await attention.acknowledge(from, body.id, body.acknowledged, actor)) return { data: body };
    throw new Problem("NOT_FOUND", "It needs no attention any more: read the list again.");
  }

  return [
    operation("GET /api-keys/{keyId}/attention", {
      id: "listAttention",
      summary: "List what needs attention on a key, the worst first: why, since when, and what helps",
      portal: true,
      query: z.strictObject({ subscriptionId: z.string().max(64).optional() }),
      reply: { status: 200, data: z.array(shownAttention) },
      async handle({ keyId, principal, query: { subscriptionId } }) {
        return { data: await shown(deps, await attention.ofKey(keyId, subscriptionId), principal) };
      },
    }),
    operation("POST /api-keys/{keyId}/attention/acknowledge", {
      id: "acknowledgeAttention",
      summary: "Acknowledge what needs attention, until it changes",
      ...acknowledgement,
      handle: ({ keyId, body, actor }) => acknowledge(keyId, body, actor),
    }),
    operation("GET /relay/attention", {
      id: "listRelayAttention",
      summary: "List what needs attention of the relay and on all keys, in their order; for tokens that own every key",
      everyKey: true,
      query: pageQuery,
      reply: { status: 200, data: z.array(shownAttention), paged: true },
      async handle({ principal, query: { cursor, limit = DEFAULT_LIMIT } }) {
        const after = cursors.read(cursor, "attention");
        const parts = after === undefined ? await attention.ofParts(await figures.parts()) : [];
        const { items, next } = await attention.ofKeys(after, limit);
        const data = await shown(deps, [...parts, ...items], principal);
        return { data, nextCursor: cursors.write(next, "attention") };
      },
    }),
    operation("POST /relay/attention/acknowledge", {
      id: "acknowledgeRelayAttention",
      summary: "Acknowledge what needs attention of a part of the relay; for tokens that own every key",
      everyKey: true,
      ...acknowledgement,
      handle: async ({ body, actor }) => acknowledge(await figures.parts(), body, actor),
    }),
  ];
}

/** Shows them with the names of their subscriptions. */
async function shown(
  { subscriptionCache }: Pick<ResourceDeps, "subscriptionCache">,
  items: readonly Noted[],
  { portal }: Principal,
): Promise<readonly object[]> {
  const views: object[] = [];
  for (const item of items) {
    const { about, state, severity, reason, help, waiting, failed, failures: groups, acknowledged } = item;
    const at = about.lastIndexOf("@");
    const subscriptionName = (await namesOf(subscriptionCache, item.keyId, [about])).get(about);
    const place =
      item.keyId === WHOLE_RELAY
        ? { part: about.slice(0, at), node: about.slice(at + 1) }
        : { keyId: item.keyId, subscriptionId: about, subscriptionName };
    views.push({
      ...{ id: item.id, state, severity, ...place, reason, help, waiting },
      since: timeOf(item.since),
      nextAttemptAt: timeOf(item.nextAttemptAt),
      endsAt: timeOf(item.endsAt),
      failed: failed?.count,
      failedMore: failed?.more === true ? true : undefined,
      failures: groups?.map(({ first, last, example: { eventId, ordinal }, ...group }) => ({
        ...{ ...group, first: isoTime(first), last: isoTime(last) },
        example: { eventId, deliveryId: deliveryId(ordinal, about) },
      })),
      acknowledged: acknowledged && {
        at: isoTime(acknowledged.at),
        by: portal === undefined ? acknowledged.by : undefined,
      },
    });
  }
  return views;
}

const timeOf = (ms: number | undefined): string | undefined => (ms === undefined ? undefined : isoTime(ms));
