/** Shows one delivery of an event: its state, its timeline, and the buttons that try, cancel and replay it. */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { duration, reason } from "../state/format.ts";
import { nameOf, useKnown } from "../state/api-keys.ts";
import { badge, Button, link, problem, showToast, useAction, useNow } from "../kit/elements.tsx";
import { to } from "../state/route.ts";
import { WhatWasSent } from "./sent.tsx";
import type { Attempt, Delivery, Glance, OfKey, RelayEvent } from "../shapes.ts";
import { timeline } from "../kit/attempts.tsx";
import { may } from "../state/token.ts";

interface CardProps extends OfKey {
  readonly event: RelayEvent;
  /** The published bytes. */
  readonly data: string;
  readonly delivery: Delivery;
  readonly again: () => void;
}

export const DeliveryCard = ({ keyId, event, data, delivery, again }: CardProps) => {
  const { id, subscriptionId, subscriptionName, status, attempts, cycle } = delivery;
  const sub = useKnown(keyId).get(subscriptionId);
  const name = sub === undefined ? (subscriptionName ?? subscriptionId) : nameOf(sub);
  const act = useDeliveryActions(keyId, event.id, delivery, again);
  const earlier = useEarlier(keyId, event.id, delivery);
  const all = [...earlier.attempts, ...attempts];
  const ended = status === "delivered" || status === "failed" || delivery.reason === "cancel_requested";
  return (
    <section class="card" aria-labelledby={id}>
      <header class="card-head">
        <div>
          <h2 id={id}>To {link(to(["k", keyId, "subscriptions", subscriptionId]), name)}</h2>
          <p class="row">
            {badge(status, status, delivery.reason && reason(delivery.reason))}
            {status === "pending" && <Next delivery={delivery} sub={sub} />}
          </p>
        </div>
        {may("change") && ended && <Button text="Replay" off={act.busy} act={(event) => act.run(event, "replay")} />}
        {may("change") && status === "pending" && (
          <div class="row">
            <Button text="Try now" off={act.busy} act={(event) => act.run(event, "attempt")} />
            <Button text="Cancel it" off={act.busy} act={(event) => act.run(event, "cancel")} />
          </div>
        )}
      </header>
      {problem(act.error)}
      {attempts.length === 0 && (
        <p class="quiet">{status === "pending" ? "There was no attempt yet." : "There was no attempt."}</p>
      )}
      {!earlier.whole && (
        <Button text="Show the attempts before this replay" class="plain" off={earlier.busy} act={earlier.run} />
      )}
      {problem(earlier.error)}
      {[...new Set(all.map((one) => one.cycle))].map((number) => (
        <div key={number}>
          {cycle > 0 && <h3>{number === 0 ? "At first" : `Replay ${number}`}</h3>}
          {timeline(
            all.filter((one) => one.cycle === number),
            (attempt) => (
              <WhatWasSent event={event} data={data} attempt={attempt} sub={sub} />
            ),
          )}
        </div>
      ))}
    </section>
  );
};

const DONE = {
  attempt: "It is tried now",
  cancel: "It is cancelled: it can still be replayed",
  replay: "It is replayed",
} as const;

function useDeliveryActions(keyId: string, eventId: string, { subscriptionId, status }: Delivery, again: () => void) {
  return useAction(async (_, what: keyof typeof DONE) => {
    const body = { subscriptionId, ...(status === "delivered" ? { force: true } : {}) };
    if (what === "replay") await ask("POST", path("/api-keys/{}/events/{}/replay", [keyId, eventId]), { body });
    else await ask("POST", path("/api-keys/{}/events/{}/deliveries/{}/{}", [keyId, eventId, subscriptionId, what]));
    showToast(DONE[what]);
    again();
  });
}

/** Attempts of the cycles before the one that the delivery is in. */
interface Earlier {
  readonly cycle?: number;
  readonly attempts: readonly Attempt[];
  readonly cursor?: string | undefined;
  /** There are no more. */
  readonly whole?: boolean;
}
const NOTHING: Earlier = { attempts: [] };

/** A replay begins a new cycle: the attempts before it are read again, because they are earlier ones now. */
function useEarlier(keyId: string, eventId: string, { subscriptionId, cycle: newest }: Delivery) {
  const [read, setRead] = useState<Earlier>({ cycle: newest, attempts: [] });
  const { attempts, cursor, whole = newest === 0 } = read.cycle === newest ? read : NOTHING;
  const older = useAction(async () => {
    const at = path("/api-keys/{}/events/{}/deliveries/{}/attempts", [keyId, eventId, subscriptionId], { cursor });
    const { data, meta } = await ask<readonly Attempt[]>("GET", at);
    const more = data.filter(({ cycle }) => cycle < newest).toReversed();
    const next = meta.nextCursor;
    setRead({ cycle: newest, attempts: [...more, ...attempts], cursor: next, whole: next === undefined });
  });
  return { ...older, attempts, whole };
}

interface NextProps {
  readonly delivery: Delivery;
  readonly sub: Glance | undefined;
}

/** Counts down to the next attempt. While its endpoint is down, that is when it is tried again. */
export const Next = ({ delivery: { nextAttemptAt, inOrder }, sub }: NextProps) => {
  const now = useNow();
  const downUntil = Date.parse(sub?.restsUntil ?? "");
  const inWords = (at: number): string => duration(Math.ceil((at - now) / 1_000) * 1_000);
  const say = (text: string) => <span class="figure">{text}</span>;
  if (nextAttemptAt === undefined) return inOrder === true ? say("waits for its turn") : null;
  const at = Date.parse(nextAttemptAt);
  if (downUntil > Math.max(now, at)) return say(`the endpoint is down: next try in ${inWords(downUntil)}`);
  if (at > now) return say(`next attempt in ${inWords(at)}`);
  // Until the subscription is known, it may be down.
  return sub === undefined ? null : say("due now");
};
