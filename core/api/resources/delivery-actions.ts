/** Tries a pending delivery now, or cancels it; and replays, tries or cancels deliveries that were selected one by one. */
import { z } from "zod";
import type { Actor } from "../../model/audit.ts";
import { Problem } from "../../model/problem.ts";
import { auditChange } from "../../records/audit-trail.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import type { ResourceDeps } from "./deps.ts";
import { note } from "./fields.ts";

const operation = operationsOf("Deliveries");

const DELIVERY = "/api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}";

/** Most entries of one request, and most deliveries that it tries or cancels: each is a commit. A replay has far fewer. */
const MOST = 100;
const MOST_DELIVERIES = 200;

const entry = z
  .strictObject({
    eventId: z.string().min(1).max(128),
    subscriptionId: note(
      z.string().max(64).optional(),
      "Only its delivery to this one. Left out: to all of which the action can be meant.",
    ),
  })
  .meta({ id: "SelectedDelivery" });
const body = z
  .strictObject({
    action: note(
      z.enum(["replay", "attempt", "cancel"]),
      "`replay` sends failed deliveries again; `attempt` tries pending ones now; `cancel` cancels them.",
    ),
    deliveries: z.array(entry).min(1, "choose at least one delivery").max(MOST, `choose at most ${MOST} deliveries`),
  })
  .meta({ id: "SelectedDeliveries" });
const result = z
  .strictObject({
    eventId: z.string(),
    subscriptionId: z.string().optional(),
    deliveries: note(z.int(), "How many the action was done to."),
    more: note(
      z.literal(true).optional(),
      `There may be more: one request tries or cancels ${MOST_DELIVERIES} deliveries at most.`,
    ),
    code: note(z.string().optional(), "Why it was not done to (all of) them; a code of the errors."),
    detail: z.string().optional(),
  })
  .meta({ id: "SelectedResult" });

type Receivers = Pick<ResourceDeps, "pausedMs" | "probe">;

/** @throws Problem PROVIDER_BACKPRESSURE when all of them are paused, until the first one is back */
export function refuseResting(receivers: Receivers, subscriptionIds: readonly string[]): void {
  const left = subscriptionIds.map(receivers.pausedMs);
  if (left.length === 0 || left.some((ms) => ms <= 0)) return;
  const retryAfter = Math.max(1, Math.ceil(Math.min(...left) / 1_000));
  throw new Problem("PROVIDER_BACKPRESSURE", "The receiver has asked for rest; come back later.", { retryAfter });
}

/** Lets the circuit breaker try them at once. Receivers that asked for a pause are left alone. */
export const probe = (receivers: Receivers, subscriptionIds: readonly string[]): Promise<void> =>
  receivers.probe(subscriptionIds.filter((id) => receivers.pausedMs(id) <= 0));

interface One {
  readonly keyId: string;
  readonly eventId: string;
  readonly subscriptionId: string;
  readonly actor: Actor;
}

const ACTIONS = { attempt: "delivery.tried", cancel: "delivery.cancelled" } as const;

/** Tries a pending delivery now, which a breaker lets through and a receiver's pause does not, or cancels it. @throws Problem */
async function act(deps: ResourceDeps, action: keyof typeof ACTIONS, one: One): Promise<void> {
  const { pending, clock } = deps;
  const { keyId, eventId, subscriptionId, actor } = one;
  const line = { action: ACTIONS[action], target: eventId, detail: subscriptionId };
  const also = [auditChange(keyId, actor, clock, line)];
  if (action === "cancel") return await pending.cancel(keyId, eventId, subscriptionId, also);
  refuseResting(deps, [subscriptionId]);
  await pending.tryNow(keyId, eventId, subscriptionId, also);
  await probe(deps, [subscriptionId]);
}

const pending = {
  portal: true,
  reply: { status: 204 },
  problems: ["NOT_PENDING", "DELIVERY_UNDER_WAY", "CONFLICT"],
} as const;

export const actionOperations = (deps: ResourceDeps): readonly AnyOperation[] => [
  operation(`POST ${DELIVERY}/attempt`, {
    id: "attemptDelivery",
    summary: "Make the next attempt of a pending delivery now; it counts like any other",
    ...pending,
    problems: [...pending.problems, "PROVIDER_BACKPRESSURE"],
    handle: (ask) => act(deps, "attempt", ask),
  }),
  operation(`POST ${DELIVERY}/cancel`, {
    id: "cancelDelivery",
    summary: "Cancel a pending delivery; a replay to this subscription sends it all the same",
    ...pending,
    handle: (ask) => act(deps, "cancel", ask),
  }),
  operation("POST /api-keys/{keyId}/deliveries", {
    id: "changeDeliveries",
    summary: "Replay, try or cancel deliveries that were selected, and report the result of each",
    portal: true,
    body,
    reply: { status: 200, data: z.array(result) },
    async handle({ keyId, body: { action, deliveries }, actor }) {
      let left = MOST_DELIVERIES;
      const results: z.output<typeof result>[] = [];
      for (const one of deliveries) {
        const {
          deliveries: done,
          more,
          tried,
          refused,
        } = action === "replay"
          ? await replaySelected(deps, { ...one, keyId, actor })
          : await changePending(deps, action, { ...one, keyId, actor }, left);
        left -= tried;
        results.push({
          ...one,
          deliveries: done,
          ...(more && { more: true }),
          ...(refused !== undefined && { code: refused.code, detail: refused.detail }),
        });
      }
      return { data: results };
    },
  }),
];

/** The result of one entry. */
interface Done {
  readonly deliveries: number;
  readonly more: boolean;
  /** How many it was tried with. */
  readonly tried: number;
  readonly refused: Problem | undefined;
}

/** An entry of a request by somebody. */
type Selected = Omit<One, "subscriptionId"> & { readonly subscriptionId?: string | undefined };

async function replaySelected(deps: ResourceDeps, one: Selected): Promise<Done> {
  const { keyId, eventId, subscriptionId, actor } = one;
  let deliveries = 0;
  const refused = await refusalOf(async () => {
    const { found } = await idsOf(deps, one, "failed", MOST_DELIVERIES);
    refuseResting(deps, found);
    const line = { action: "event.replayed", target: eventId, detail: subscriptionId } as const;
    const also = [auditChange(keyId, actor, deps.clock, line)];
    deliveries = await deps.replay.event(keyId, eventId, {
      ...(subscriptionId !== undefined && { subscriptionId }),
      also,
    });
    await probe(deps, found);
  });
  return { deliveries, more: false, tried: 0, refused };
}

async function changePending(
  deps: ResourceDeps,
  action: keyof typeof ACTIONS,
  one: Selected,
  most: number,
): Promise<Done> {
  const { found, more } = await idsOf(deps, one, "pending", most);
  let deliveries = 0;
  let refused: Problem | undefined;
  if (found.length === 0 && !more) refused = new Problem("NOT_PENDING", "No delivery of it is pending.");
  for (const subscriptionId of found) {
    const no = await refusalOf(() => act(deps, action, { ...one, subscriptionId }));
    if (no === undefined) deliveries++;
    refused ??= no;
  }
  return { deliveries, more, tried: found.length, refused };
}

/** Returns what refuses it; a fault of ours ends the whole request. */
async function refusalOf(act: () => Promise<void>): Promise<Problem | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    if (!(error instanceof Problem) || error.status >= 500) throw error;
    return error;
  }
}

/** Returns the subscriptions whose deliveries of an event have a status, as many as one request may change. */
async function idsOf(
  { history }: ResourceDeps,
  { keyId, eventId, subscriptionId: only }: Selected,
  wanted: "failed" | "pending",
  most: number,
): Promise<{ readonly found: readonly string[]; readonly more: boolean }> {
  if (only !== undefined) return { found: [only], more: false };
  const found: string[] = [];
  for await (const page of history.everyDelivery(keyId, eventId)) {
    for (const { status, subscriptionId } of page) {
      if (status !== wanted) continue;
      if (found.length >= most) return { found, more: true };
      found.push(subscriptionId);
    }
  }
  return { found, more: false };
}
