/**
 * Replays everything that failed in a period: counts first, then sends again at a chosen rate, and shows the progress.
 */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { Dialog, Form } from "../kit/dialog.tsx";
import { errorOf, Field, Select } from "../kit/fields.tsx";
import { count, duration } from "../state/format.ts";
import { useCell } from "../state/cell.ts";
import { knownOf, nameOf } from "../state/api-keys.ts";
import { liveState } from "../state/live.ts";
import { notice, problem, useAction, useNow } from "../kit/elements.tsx";
import { useLive } from "../state/load.ts";
import { relayNow } from "../state/relay-time.ts";
import type { Replayed } from "../shapes.ts";

interface ReplayProps {
  readonly keyId: string;
  /** Only of this subscription. */
  readonly only: string | undefined;
  readonly close: () => void;
}

const PERIODS = [
  ["3600000", "the last hour"],
  ["86400000", "the last 24 hours"],
  ["604800000", "the last 7 days"],
  ["", "all that is kept"],
] as const;

interface Counted extends Pick<Replayed, "matched" | "more"> {
  /** What was chosen when it was asked for, and what was asked for. */
  readonly period: string;
  readonly perSecond: string;
  readonly asked: object;
}

interface Under {
  readonly replayed: number;
  readonly more: boolean;
  readonly startedAt: number;
  readonly perSecond: number;
}

export const ReplayFailed = ({ keyId, only, close }: ReplayProps) => {
  const [period, setPeriod] = useState<string>("86400000");
  const [perSecond, setPerSecond] = useState("50");
  const [found, setFound] = useState<Counted | undefined>(undefined);
  const [under, setUnder] = useState<Under | undefined>(undefined);
  // An answer that comes after the choice has changed is that of another question.
  const counted = found?.period === period && found.perSecond === perSecond ? found : undefined;
  const shape = only === undefined ? "/api-keys/{}/replay" : "/api-keys/{}/webhooks/{}/replay";
  const post = async (body: object, wanted?: AbortSignal): Promise<Replayed> =>
    (await ask<Replayed>("POST", path(shape, only === undefined ? [keyId] : [keyId, only]), { body, wanted })).data;
  const { run, busy, error } = useAction(async (wanted) => {
    if (counted !== undefined) {
      const startedAt = relayNow();
      const { replayed, more } = await post({ ...counted.asked, dryRun: false }, wanted);
      return setUnder({ replayed, more, startedAt, perSecond: Number(perSecond) });
    }
    const now = relayNow();
    const since = period === "" ? {} : { since: new Date(now - Number(period)).toISOString() };
    // The end is fixed, so that what is counted is what is sent.
    const asked = { ...since, until: new Date(now).toISOString(), perSecond: Number(perSecond) };
    const { matched, more } = await post({ ...asked, dryRun: true });
    setFound({ period, perSecond, asked, matched, more });
  });
  // Listens before the replay begins: the first deliveries end before its answer is here.
  const [ended, setEnded] = useState<ReadonlyMap<string, string>>(new Map());
  useLive((message) => {
    if (message.event !== "attempt" || message.data.cycle === 0 || (!busy && under === undefined)) return;
    const { deliveryId, subscriptionId, status } = message.data;
    if (only === undefined || only === subscriptionId) setEnded((before) => new Map(before).set(deliveryId, status));
  });
  const change = (set: (value: string) => void) => (value: string) => {
    set(value);
    setFound(undefined);
  };
  const sub = only === undefined ? undefined : knownOf(keyId)?.get(only);
  const where = only === undefined ? "every active subscription of this key" : sub === undefined ? only : nameOf(sub);
  if (under !== undefined)
    return (
      <Dialog title="Replaying" close={close}>
        <Progress under={under} ended={ended} close={close} />
      </Dialog>
    );
  return (
    <Dialog title="Replay failed deliveries" close={close}>
      <Form submit={run}>
        <p>
          Deliveries to <strong>{where}</strong> that failed are replayed, oldest first. Receivers know repeated events
          by their id.
        </p>
        <Select label="Events accepted in" value={period} options={PERIODS} change={change(setPeriod)} />
        <Field
          label="Deliveries a second"
          value={perSecond}
          change={change(setPerSecond)}
          inputMode="decimal"
          error={errorOf(error, "perSecond")}
        />
        {problem(error)}
        {counted !== undefined && (
          <div role="status">
            {notice(
              "info",
              <p>
                {counted.matched === 0
                  ? "Nothing failed in that time: there is nothing to replay."
                  : `${counted.more ? "More than " : ""}${count(counted.matched)} ${counted.matched === 1 ? "delivery" : "deliveries"} will be replayed ${over(counted.matched / Number(perSecond))}.`}
              </p>,
            )}
          </div>
        )}
        <div class="row end">
          <button type="button" onClick={close}>
            Cancel
          </button>
          {counted === undefined ? (
            <button key="count" type="submit" class="main" disabled={busy}>
              {busy ? "Counting…" : "Count them first"}
            </button>
          ) : (
            <button key="start" type="submit" class="main" disabled={busy || counted.matched === 0}>
              {busy ? "Starting…" : `Replay ${count(counted.matched)}`}
            </button>
          )}
        </div>
      </Form>
    </Dialog>
  );
};

/** How long it takes at the chosen rate. */
const over = (seconds: number): string => (seconds < 2 ? "at once" : `over ${duration(seconds * 1_000)}`);

interface ProgressProps {
  readonly under: Under;
  /** Statuses of replayed deliveries by id, from the live stream. */
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
      <button type="button" class="main" onClick={close}>
        Close
      </button>
    </div>,
  ];
};
