/** Chooses event names: known ones are offered, others and patterns are typed. Shows what a type is. */
import { useEffect, useId, useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { Button, showFailure } from "./elements.tsx";
import { below } from "./fields.tsx";
import type { EventTypeDetail, EventTypeHead } from "../shapes.ts";
import { token } from "../state/token.ts";

interface NamesProps {
  readonly chosen: readonly string[];
  readonly change: (chosen: readonly string[]) => void;
  readonly error?: string | undefined;
}

const PATTERN = /^(?:[A-Za-z0-9_-]+|\*)(?:[:.](?:[A-Za-z0-9_-]+|\*))*$/;
/** Returns true for a text that the relay takes for an event pattern. */
const isPattern = (text: string): boolean => text.length <= 128 && PATTERN.test(text);

/** How long a list of types is taken for new, ms: each type comes with its first event. */
const NEW_MS = 60_000;
let known: { readonly since: number; readonly types: Promise<readonly EventTypeHead[]> } | undefined;
token.watch((now) => {
  if (now === undefined) known = undefined;
});

/** Reads the types that the token may see. */
export function eventTypes(): Promise<readonly EventTypeHead[]> {
  if (known !== undefined && performance.now() - known.since < NEW_MS) return known.types;
  const types = ask<readonly EventTypeHead[]>("GET", "/event-types?limit=200").then(({ data }) => data);
  const mine = { since: performance.now(), types };
  known = mine;
  types.catch(() => {
    if (known === mine) known = undefined;
  });
  return types;
}

/** Offers the types once they are read. */
export function useEventTypes(): readonly EventTypeHead[] {
  const [types, set] = useState<readonly EventTypeHead[]>([]);
  useEffect(() => void eventTypes().then(set, showFailure), []);
  return types;
}

/** Groups what can be chosen by the first part of the names, all of a group before each of them, with words. */
const groupsOf = (types: readonly EventTypeHead[]) =>
  [...Map.groupBy(types, ({ name }) => /^[^:.]*[:.]?/.exec(name)?.[0] ?? "")].map(([group, own]) => {
    const each = own.map(({ name, description = "", deprecated }) => [
      name,
      deprecated ? `Deprecated. ${description}` : description,
    ]);
    return [group, own.length > 1 ? [[`${group}*`, `all ${own.length}`], ...each] : each] as const;
  });

export const EventNames = ({ chosen, change, error }: NamesProps) => {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState<string | undefined>(undefined);
  const offered = useEventTypes();
  const id = useId();

  function add(): void {
    const names = text.split(/[\s,]+/).filter(Boolean);
    const bad = names.find((name) => !isPattern(name));
    if (bad !== undefined)
      return setWrong(
        `“${bad}” is no event name: letters, digits, _ and - in parts separated by : or ., with * for a whole part`,
      );
    change([...new Set([...chosen, ...names])]);
    setText("");
    setWrong(undefined);
  }
  const toggle = (name: string): void =>
    change(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name]);
  const message = wrong ?? error;
  const star = () => <code>*</code>;
  const hint = [star(), " stands for one part, at the end for one or more; ", star(), " alone is every event."];
  const { linked, lines: notes } = below(id, hint, message);
  const groups = groupsOf(offered);
  const others = chosen.filter((name) => !groups.some(([, all]) => all.some(([one]) => one === name)));
  return (
    <fieldset class="field">
      <legend>Events</legend>
      {groups.map(([group, all]) => (
        <div key={group} class="types" role="group" aria-label={group}>
          {all.map(([name = "", words]) => (
            <p key={name}>
              <Button text={name} class="chip" pressed={chosen.includes(name)} act={() => toggle(name)} />{" "}
              <small>{words}</small>
            </p>
          ))}
        </div>
      ))}
      <div class="chips">
        {others.map((name) => (
          <Button key={name} text={name} class="chip" label={`${name}: remove`} pressed act={() => toggle(name)} />
        ))}
      </div>
      <div class="row">
        <label class="hidden" htmlFor={id}>
          Add an event name or pattern
        </label>
        <input
          id={id}
          value={text}
          placeholder="deposit:paid or deposit:*"
          autoComplete="off"
          autoCapitalize="none"
          spellcheck={false}
          {...linked}
          onInput={(event: Event) => setText((event.currentTarget as HTMLInputElement).value)}
          onBlur={() => text !== "" && add()}
          onKeyDown={(event: KeyboardEvent) => {
            if (event.key !== "Enter") return;
            event.preventDefault();
            add();
          }}
        />
        <Button text="Add" act={add} />
      </div>
      {notes}
    </fieldset>
  );
};

interface TypeTextProps {
  readonly name: string;
  /** Called with the example, where somebody may use it. */
  readonly use?: (example: unknown) => void;
  /** Only its example and its schema, both open. */
  readonly brief?: boolean;
}

/** Shows what the config says of a type: its description, its example and its schema. */
export const EventTypeText = ({ name, use, brief = false }: TypeTextProps) => {
  const [type, setType] = useState<EventTypeDetail | undefined>(undefined);
  useEffect(() => {
    ask<EventTypeDetail>("GET", path("/event-types/{}", [name])).then(({ data }) => setType(data), showFailure);
  }, [name]);
  if (type === undefined) return null;
  const { description, deprecated, example, schema } = type;
  const shown = (label: string, value: unknown) =>
    value !== undefined && (
      <details open={brief}>
        <summary>{label}</summary>
        <pre tabIndex={0} aria-label={label}>
          {JSON.stringify(value, null, 2)}
        </pre>
      </details>
    );
  return (
    <div>
      {!brief && description !== undefined && <p>{description}</p>}
      {!brief && deprecated === true && <p>Deprecated: do not begin to use it.</p>}
      {shown("Example", example)}
      {shown("Schema", schema)}
      {use !== undefined && example !== undefined && (
        <Button text="Use the example" class="small" act={() => use(example)} />
      )}
    </div>
  );
};
