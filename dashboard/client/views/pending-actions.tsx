/** Says when a pending delivery is tried next, and has the buttons that try it now or cancel it. */
import { ask, path } from "../state/api.ts";
import { problem, showToast, useAction, useNow } from "../kit/elements.tsx";
import { duration } from "../state/format.ts";
import type { Delivery, Glance } from "../shapes.ts";

interface NextProps {
  readonly delivery: Delivery;
  readonly sub: Glance | undefined;
}

/** Counts down to the next attempt. While the circuit breaker pauses its subscription, that is when the pause ends. */
export const Next = ({ delivery: { nextAttemptAt, inOrder }, sub }: NextProps) => {
  const now = useNow();
  const pausedUntil = Date.parse(sub?.restsUntil ?? "");
  const inWords = (at: number): string => duration(Math.ceil((at - now) / 1_000) * 1_000);
  const say = (text: string) => <span class="figure">{text}</span>;
  if (nextAttemptAt === undefined) return inOrder === true ? say("waits for its turn") : null;
  const at = Date.parse(nextAttemptAt);
  if (pausedUntil > Math.max(now, at)) return say(`the endpoint is paused: next attempt in ${inWords(pausedUntil)}`);
  if (at > now) return say(`next attempt in ${inWords(at)}`);
  // Until the subscription is known, it may be paused.
  return sub === undefined ? null : say("due now");
};

interface ActionsProps {
  readonly keyId: string;
  readonly eventId: string;
  readonly subscriptionId: string;
  readonly again: () => void;
}

export const PendingActions = ({ keyId, eventId, subscriptionId, again }: ActionsProps) => {
  const { run, busy, error } = useAction(async (_, what: "attempt" | "cancel") => {
    const at = [keyId, eventId, subscriptionId, what];
    await ask("POST", path("/api-keys/{}/events/{}/deliveries/{}/{}", at));
    showToast(what === "attempt" ? "It is tried now" : "It is cancelled: it can still be replayed");
    again();
  });
  const button = (text: string, what: "attempt" | "cancel") => (
    <button type="button" disabled={busy} onClick={(event: Event) => run(event, what)}>
      {text}
    </button>
  );
  return (
    <div class="pending-actions">
      <div class="row">
        {button("Try now", "attempt")}
        {button("Cancel it", "cancel")}
      </div>
      {problem(error)}
    </div>
  );
};
