/** Selects rows of a list, and replays, tries or cancels what is selected: at once, with what became of each. */
import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { Button, notice, problem, useAction } from "./elements.tsx";
import { may } from "../state/token.ts";

/** One that can be selected: an event, or its delivery to one subscription. */
interface Selectable {
  readonly eventId: string;
  readonly subscriptionId?: string;
}

interface Result extends Selectable {
  readonly deliveries: number;
  readonly more?: true;
  readonly code?: string;
  readonly detail?: string;
}

/** The most that one request takes. */
const MOST = 100;

interface Selection {
  /** The first cell of a row with its checkbox. */
  pick(one: Selectable, cell: ComponentChildren): VNode;
  /** The row of buttons over the list. */
  bar(again: () => void): VNode | false;
}

/** @param all every row that is shown */
export function useSelection(keyId: string, all: readonly Selectable[]): Selection {
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const shown = all.filter(({ eventId }) => picked.has(eventId));
  const toggle = ({ eventId }: Selectable): void => {
    const next = new Set(picked);
    if (!next.delete(eventId)) next.add(eventId);
    setPicked(next);
  };
  return {
    pick: (one, cell) =>
      !may("change") ? (
        <span>{cell}</span>
      ) : (
        <span class="pick">
          <input
            type="checkbox"
            aria-label={`Select ${one.eventId}`}
            checked={picked.has(one.eventId)}
            onChange={() => toggle(one)}
          />
          {cell}
        </span>
      ),
    bar: (again) =>
      may("change") && (
        <Bar
          keyId={keyId}
          shown={shown}
          whole={all.length > 0 && shown.length === all.length}
          pickAll={(on) => setPicked(new Set(on ? all.slice(0, MOST).map(({ eventId }) => eventId) : []))}
          again={again}
        />
      ),
  };
}

interface BarProps {
  readonly keyId: string;
  readonly shown: readonly Selectable[];
  readonly whole: boolean;
  readonly pickAll: (on: boolean) => void;
  readonly again: () => void;
}

const ACTIONS = [
  ["replay", "Replay", "replayed"],
  ["attempt", "Try now", "tried now"],
  ["cancel", "Cancel", "cancelled"],
] as const;

const Bar = ({ keyId, shown, whole, pickAll, again }: BarProps) => {
  const [done, setDone] = useState<Omit<OutcomeProps, "close"> | undefined>(undefined);
  const { run, busy, error } = useAction(async (_, action: string, words: string) => {
    setDone(undefined);
    const body = { action, deliveries: shown.map(({ eventId, subscriptionId }) => ({ eventId, subscriptionId })) };
    const { data } = await ask<readonly Result[]>("POST", path("/api-keys/{}/deliveries", [keyId]), { body });
    setDone({ words, results: data });
    pickAll(false);
    again();
  });
  return (
    <div class="selection">
      <div class="row" role="group" aria-label="Selected">
        <label class="pick">
          <input type="checkbox" checked={whole} onChange={() => pickAll(!whole)} />
          Select all shown
        </label>
        {shown.length > 0 &&
          ACTIONS.map(([action, text, words]) => (
            <Button
              key={text}
              text={`${text} (${shown.length})`}
              off={busy}
              act={(event) => run(event, action, words)}
            />
          ))}
      </div>
      {problem(error)}
      {done !== undefined && <Outcome {...done} close={() => setDone(undefined)} />}
    </div>
  );
};

interface OutcomeProps {
  readonly words: string;
  readonly results: readonly Result[];
  readonly close: () => void;
}

const Outcome = ({ words, results, close }: OutcomeProps) => {
  const sum = results.reduce((all, { deliveries }) => all + deliveries, 0);
  const refused = results.filter(({ code, more }) => code !== undefined || more === true);
  return notice(
    refused.length === 0 ? "good" : "warn",
    <p role="status">{sum === 1 ? `One delivery is ${words}.` : `${sum} deliveries are ${words}.`}</p>,
    refused.length > 0 && (
      <ul>
        {refused.map(({ eventId, detail, more }) => (
          <li key={eventId}>
            <code>{eventId}</code> {detail ?? (more === true ? "has more of them: repeat it." : "")}
          </li>
        ))}
      </ul>
    ),
    <Button text="Close" class="plain" act={close} />,
  );
};
