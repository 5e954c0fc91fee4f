/**
 * Replays everything that failed in a period: counts first, then sends again at a chosen rate, and shows the progress.
 */
import { useState } from "preact/hooks";
import { ask, path, relayNow } from "../state/api.ts";
import { Dialog, Form } from "../kit/dialog.tsx";
import { Field, Select, useForm } from "../kit/fields.tsx";
import { count, duration } from "../state/format.ts";
import { useCell } from "../state/cell.ts";
import { knownOf, nameOf } from "../state/api-keys.ts";
import { liveState } from "../state/live.ts";
import { Button, notice, problem, Submit, useNow } from "../kit/elements.tsx";
import { useLive } from "../state/load.ts";
import type { Glance, KeyDialogProps, Replayed } from "../shapes.ts";

interface ReplayProps extends KeyDialogProps {
  /** Only of this subscription. */
  readonly only: string | undefined;
  /** The period that is offered first, ms. @default a day */
  readonly period?: string;
}

const PERIODS = [
  ["3600000", "the last hour"],
  ["86400000", "the last 24 hours"],
  ["604800000", "the last 7 days"],
  ["", "all that is kept"],
] as const;

interface Counted extends Pick<Replayed, "matched" | "more"> {
  /** The choice of the form that was counted, and what the relay was asked. */
  readonly texts: Readonly<Record<"period" | "perSecond", string>>;
  readonly asked: object;
}

interface Under {
  readonly replayed: number;
  readonly more: boolean;
  readonly startedAt: number;
  readonly perSecond: number;
}

export const ReplayFailed = ({ keyId, only, period = "86400000", close }: ReplayProps) => {
  const [found, setFound] = useState<Counted | undefined>(undefined);
  const [under, setUnder] = useState<Under | undefined>(undefined);
  const shape = only === undefined ? "/api-keys/{}/replay" : "/api-keys/{}/webhooks/{}/replay";
  const post = async (body: object, wanted?: AbortSignal): Promise<Replayed> =>
    (await ask<Replayed>("POST", path(shape, only === undefined ? [keyId] : [keyId, only]), { body, wanted })).data;
  const form = useForm({ period, perSecond: "50" }, async (texts, wanted) => {
    const perSecond = Number(texts.perSecond);
    if (counted !== undefined) {
      const startedAt = relayNow();
      const { replayed, more } = await post({ ...counted.asked, dryRun: false }, wanted);
      return setUnder({ replayed, more, startedAt, perSecond });
    }
    const now = relayNow();
    const since = texts.period === "" ? {} : { since: new Date(now - Number(texts.period)).toISOString() };
    // The end is fixed, so that what is counted is what is sent.
    const asked = { ...since, until: new Date(now).toISOString(), perSecond };
    const { matched, more } = await post({ ...asked, dryRun: true });
    setFound({ texts, asked, matched, more });
  });
  // An answer that comes after the choice has changed is that of another question.
  const counted = found?.texts === form.texts ? found : undefined;
  const ended = useEnded(only, form.busy || under !== undefined);
  if (under !== undefined)
    return (
      <Dialog title="Replaying" close={close}>
        <Progress under={under} ended={ended} close={close} />
      </Dialog>
    );
  const sub = only === undefined ? undefined : knownOf(keyId)?.get(only);
  const left = [...(knownOf(keyId)?.values() ?? [])].filter(
    ({ id, status, figures }) => status === "disabled" && (only ?? id) === id && figures.failed > 0,
  );
  const where = only === undefined ? "every active subscription of this key" : sub === undefined ? only : nameOf(sub);
  return (
    <Dialog title="Replay failed deliveries" close={close}>
      <Form submit={form.run}>
        <p>
          Deliveries to <strong>{where}</strong> that failed are replayed, oldest first. Receivers know repeated events
          by their id.
        </p>
        <Select {...form.of("period", "Events accepted in")} options={PERIODS} />
        <Field {...form.of("perSecond", "Deliveries a second")} inputMode="decimal" />
        {problem(form.error)}
        {left.length > 0 && notice("warn", <p>{leftOut(left)}</p>)}
        {counted !== undefined && <div role="status">{notice("info", <p>{countText(counted)}</p>)}</div>}
        <div class="row end">
          <Button text="Cancel" act={close} />
          {counted === undefined ? (
            <Submit key="count" text="Count them first" doing="Counting…" busy={form.busy} />
          ) : (
            <Submit
              key="start"
              text={`Replay ${count(counted.matched)}`}
              doing="Starting…"
              busy={form.busy}
              off={counted.matched === 0}
            />
          )}
        </div>
      </Form>
    </Dialog>
  );
};

/** Accounts for what failed and is not replayed: nothing is sent to what is disabled. */
function leftOut(all: readonly Glance[]): string {
  const failed = all.reduce((sum, { figures }) => sum + figures.failed, 0);
  const names = all.slice(0, 3).map(nameOf);
  const which =
    all.length > names.length ? `${names.join(", ")} and ${all.length - names.length} more` : names.join(", ");
  return `Left out: ${count(failed)} lately failed of ${which}, which ${all.length === 1 ? "is" : "are"} disabled. Enable first, then replay.`;
}

/** Says how many deliveries were counted, and how long they take at the chosen rate. */
function countText({ matched, more, texts }: Counted): string {
  if (matched === 0) return "Nothing failed in that time: there is nothing to replay.";
  const seconds = matched / Number(texts.perSecond);
  const over = seconds < 2 ? "at once" : `over ${duration(seconds * 1_000)}`;
  return `${more ? "More than " : ""}${count(matched)} ${matched === 1 ? "delivery" : "deliveries"} will be replayed ${over}.`;
}

/**
 * Returns the statuses of replayed deliveries by their id, from the live stream.
 * @param on from before the replay begins: the first deliveries end before its answer is here
 */
function useEnded(only: string | undefined, on: boolean): ReadonlyMap<string, string> {
  const [ended, setEnded] = useState<ReadonlyMap<string, string>>(new Map());
  useLive((message) => {
    if (message.event !== "attempt" || message.data.cycle === 0 || !on) return;
    const { deliveryId, subscriptionId, status } = message.data;
    if (only === undefined || only === subscriptionId) setEnded((before) => new Map(before).set(deliveryId, status));
  });
  return ended;
}

interface ProgressProps {
  readonly under: Under;
  readonly ended: ReadonlyMap<string, string>;
  readonly close: () => void;
}

/** Shows what the stream reported; without a stream, what must be due by now. */
const Progress = ({ under, ended, close }: ProgressProps) => {
  const { replayed, more, startedAt, perSecond } = under;
  const now = useNow();
  const tried = Math.min(replayed, ended.size);
  const live = useCell(liveState) === "on";
  const due = Math.min(replayed, Math.max(0, Math.floor(((now - startedAt) / 1_000) * perSecond)));
  const good = [...ended.values()].filter((status) => status === "delivered").length;
  return [
    <p role="status">{`${count(replayed)} ${replayed === 1 ? "delivery is" : "deliveries are"} pending again.`}</p>,
    <label class="field">
      Tried again
      <progress max={Math.max(1, replayed)} value={live ? tried : due} />
    </label>,
    <p class="figure">
      {live
        ? `${count(tried)} of ${count(replayed)} tried, ${count(good)} delivered`
        : `about ${count(due)} of ${count(replayed)} tried: the page is not live, so this is estimated from the rate`}
    </p>,
    more && notice("info", "There are more: replay again when these have ended."),
    <p class="quiet">It continues when this is closed.</p>,
    <div class="row end">
      <Button text="Close" class="main" act={close} />
    </div>,
  ];
};
