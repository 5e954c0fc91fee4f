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

/** One request takes no more. */
const MOST = 100;

const ACTIONS = [
  ["replay", "Replay", "replayed"],
  ["attempt", "Try now", "tried now"],
  ["cancel", "Cancel", "cancelled"],
] as const;

/**
 * Returns what puts a checkbox into the first cell of a row, and the buttons over the list, for those who may use them.
 * @param all every row that is shown
 */
export function useSelection(keyId: string, all: readonly Selectable[], again: () => void) {
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [done, setDone] = useState<Omit<OutcomeProps, "close"> | undefined>(undefined);
  const shown = all.filter(({ eventId }) => picked.has(eventId));
  const whole = all.length > 0 && shown.length === all.length;
  const pickAll = (on: boolean): void => setPicked(new Set(on ? all.slice(0, MOST).map(({ eventId }) => eventId) : []));
  const toggle = (eventId: string): void => {
    const next = new Set(picked);
    if (!next.delete(eventId)) next.add(eventId);
    setPicked(next);
  };
  const { run, busy, error } = useAction(async (_, action: string, words: string) => {
    setDone(undefined);
    const body = { action, deliveries: shown.map(({ eventId, subscriptionId }) => ({ eventId, subscriptionId })) };
    const { data } = await ask<readonly Result[]>("POST", path("/api-keys/{}/deliveries", [keyId]), { body });
    setDone({ words, results: data });
    pickAll(false);
    again();
  });
  const box = (label: string, checked: boolean, change: () => void) => (
    <input type="checkbox" aria-label={label} checked={checked} onChange={change} />
  );
  const pick = ({ eventId }: Selectable, cell: ComponentChildren): VNode => (
    <span class={may("change") ? "pick" : undefined}>
      {may("change") && box(`Select ${eventId}`, picked.has(eventId), () => toggle(eventId))}
      {cell}
    </span>
  );
  const bar = may("change") && (
    <div class="selection">
      <div class="row" role="group" aria-label="Selected">
        <label class="pick">
          {box("Select all shown", whole, () => pickAll(!whole))}
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
  return { pick, bar };
}

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
