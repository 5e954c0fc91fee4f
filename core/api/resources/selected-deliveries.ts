/** Replays, tries or cancels deliveries that were selected one by one, and reports the result of each. */
import { z } from "zod";
import { auditChange } from "../../records/audit-trail.ts";
import type { Actor } from "../../model/audit.ts";
import { Problem } from "../../model/problem.ts";
import type { History } from "../../history/history.ts";
import type { Replay } from "../../replay/replay.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { probe, refuseResting } from "./expected-receivers.ts";
import { cancel, tryNow, type PendingDeps } from "./pending.ts";

/** Most entries of one request, and most deliveries that it tries or cancels: each is a commit. A replay has far fewer. */
const MOST = 100;
const MOST_DELIVERIES = 200;

const entry = z.strictObject({
  eventId: z.string().min(1).max(128),
  subscriptionId: z.string().max(64).optional().meta({
    description: "Only its delivery to this one. Left out: to all of which the action can be meant.",
  }),
});
const body = z
  .strictObject({
    action: z.enum(["replay", "attempt", "cancel"]).meta({
      description: "`replay` sends failed deliveries again; `attempt` tries pending ones now; `cancel` cancels them.",
    }),
    deliveries: z.array(entry).min(1, "choose at least one delivery").max(MOST, `choose at most ${MOST} deliveries`),
  })
  .meta({ id: "SelectedDeliveries" });
const result = z.strictObject({
  eventId: z.string(),
  subscriptionId: z.string().optional(),
  deliveries: z.int().meta({ description: "How many the action was done to." }),
  more: z
    .literal(true)
    .optional()
    .meta({ description: `There may be more: one request tries or cancels ${MOST_DELIVERIES} deliveries at most.` }),
  code: z.string().optional().meta({ description: "Why it was not done to (all of) them; a code of the errors." }),
  detail: z.string().optional(),
});
const reply = z.array(result).meta({ id: "SelectedResults" });
type Entry = z.output<typeof entry>;
type Result = z.output<typeof result>;

export function selectedOperations(
  deps: PendingDeps & { readonly history: History; readonly replay: Replay },
): readonly AnyOperation[] {
  const { history, replay, clock } = deps;

  async function replayOne(keyId: string, { eventId, subscriptionId }: Entry, actor: Actor): Promise<number> {
    const ids = await idsOf(keyId, eventId, subscriptionId, "failed");
    refuseResting(deps, ids.found);
    const line = { action: "event.replayed", target: eventId, detail: subscriptionId } as const;
    const also = [auditChange(keyId, actor, clock, line)];
    const moved = await replay.event(keyId, eventId, { ...(subscriptionId !== undefined && { subscriptionId }), also });
    await probe(deps, ids.found);
    return moved;
  }

  /** The subscriptions whose deliveries of an event have a status, as many as one request may change. */
  async function idsOf(
    keyId: string,
    eventId: string,
    only: string | undefined,
    wanted: "failed" | "pending",
    most = MOST_DELIVERIES,
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

  return [
    operation({
      method: "POST",
      path: "/api-keys/{keyId}/deliveries",
      summary: "Replay, try or cancel deliveries that were selected, and report the result of each",
      tag: "Deliveries",
      portal: true,
      body,
      reply: { status: 200, data: reply },
      async handle({ keyId, body: { action, deliveries }, actor }) {
        let left = MOST_DELIVERIES;
        const results: Result[] = [];
        for (const one of deliveries) {
          const { eventId } = one;
          let done = 0;
          let more = false;
          let refused: Problem | undefined;
          const attempt = async (act: () => Promise<number>): Promise<void> => {
            try {
              done += await act();
            } catch (error) {
              if (!(error instanceof Problem) || error.status >= 500) throw error;
              refused ??= error;
            }
          };
          if (action === "replay") await attempt(() => replayOne(keyId, one, actor));
          else {
            const ids = await idsOf(keyId, eventId, one.subscriptionId, "pending", left);
            more = ids.more;
            if (ids.found.length === 0 && !more) refused = new Problem("NOT_PENDING", "No delivery of it is pending.");
            for (const subscriptionId of ids.found) {
              left--;
              await attempt(async () => {
                await (action === "cancel" ? cancel : tryNow)(deps, { keyId, eventId, subscriptionId }, actor);
                return 1;
              });
            }
          }
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
}
