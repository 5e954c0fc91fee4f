/** Builds a filter by choosing: a field of a real example, a comparison, a value. What it makes is the JSON of the field above. */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { Button, showFailure, showToast } from "../kit/elements.tsx";
import { eventTypes } from "../kit/event-types-input.tsx";
import { Field, Select } from "../kit/fields.tsx";
import type { EventDetail, EventTypeDetail, Filter, OfKey, RelayEvent } from "../shapes.ts";
import { filterText, readFilter } from "./testers.tsx";

/** The last ones are for values of one kind: a text is no number. */
const COMPARISONS = [
  ["equals", "is"],
  ["in", "is one of (commas between)"],
  ["exists", "is there"],
  ["prefix", "begins with", "string"],
  ["gte", "is at least", "number"],
  ["lte", "is at most", "number"],
] as const;
type Comparison = (typeof COMPARISONS)[number][0];

/** `data.customer.country` → `"DE"`: the values of an example by their paths, lists left out. */
function fieldsOf(data: unknown, at: readonly string[] = ["data"]): ReadonlyMap<string, unknown> {
  if (Array.isArray(data) || data === undefined) return new Map();
  // A name with a dot is addressed by a list, which is for those who write JSON.
  if (typeof data !== "object" || data === null) return new Map([[at.join("."), data]]);
  const inner = Object.entries(data).filter(([name]) => !name.includes("."));
  return new Map(inner.flatMap(([name, value]) => [...fieldsOf(value, [...at, name])]));
}

/** Returns the data of the example of a chosen type, or of any; of the newest event where no type has one. */
async function exampleFor(keyId: string, chosen: readonly string[]): Promise<unknown> {
  const types = (await eventTypes()).filter(({ hasExample }) => hasExample === true);
  const type = types.find(({ name }) => chosen.includes(name)) ?? types[0];
  if (type !== undefined) return (await ask<EventTypeDetail>("GET", path("/event-types/{}", [type.name]))).data.example;
  const [newest] = (await ask<readonly RelayEvent[]>("GET", path("/api-keys/{}/events", [keyId], { limit: "1" }))).data;
  if (newest === undefined) return undefined;
  return (await ask<EventDetail>("GET", path("/api-keys/{}/events/{}", [keyId, newest.id]))).data.data;
}

const valueText = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));

/** A value is of the kind that the example has there: a text of digits stays a text. */
function valueOf(text: string, example: unknown): string | number | boolean | null {
  if (typeof example === "string" || text.trim() === "") return text;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? text : (value as number);
  } catch {
    return text;
  }
}

/** @throws Error for a number that is none */
function conditionOf(field: string, by: Comparison, text: string, example: unknown): Filter {
  const at = { path: field };
  if (by === "exists") return { ...at, exists: text.trim() !== "no" };
  if (by === "in") return { ...at, in: text.split(",").map((part) => valueOf(part.trim(), example)) };
  if (by === "prefix") return { ...at, prefix: text };
  if (by === "equals") return { ...at, equals: valueOf(text.trim(), example) };
  const least = Number(text);
  if (text.trim() === "" || !Number.isFinite(least)) throw new Error(`“${text}” is no number.`);
  return { ...at, [by]: least } as Filter;
}

/** All conditions must hold. */
function withCondition(before: Filter | undefined, more: Filter): Filter {
  if (before === undefined) return more;
  return "and" in before && before.and !== undefined ? { and: [...before.and, more] } : { and: [before, more] };
}

interface BuilderProps extends OfKey {
  /** The JSON as it is typed. */
  readonly text: string;
  readonly change: (text: string) => void;
  /** The event names of the subscription. */
  readonly events: readonly string[];
}

export const FilterBuilder = ({ keyId, text, change, events }: BuilderProps) => {
  const [fields, setFields] = useState<ReadonlyMap<string, unknown> | undefined>(undefined);
  const [field, setField] = useState("");
  const [by, setBy] = useState<Comparison>("equals");
  const [value, setValue] = useState("");
  const load = async (): Promise<void> => {
    const found = fieldsOf(await exampleFor(keyId, events));
    setFields(found);
    setField((before) => (before === "" ? ([...found.keys()][0] ?? "") : before));
    if (found.size === 0) showToast("There is no example yet: write the filter as JSON");
  };
  if (fields === undefined || fields.size === 0)
    return <Button text="Build a condition…" class="small" act={() => void load().catch(showFailure)} />;
  const example = fields.get(field);
  const offered = COMPARISONS.filter(([, , kind]) => kind === undefined || kind === typeof example).map(
    ([name, words]) => [name, words] as const,
  );
  const add = (): void => {
    try {
      change(filterText(withCondition(readFilter(text), conditionOf(field, by, value, example))));
      setValue("");
    } catch (error) {
      showFailure(error);
    }
  };
  return (
    <div class="filters" role="group" aria-label="A condition">
      <Select
        label="Field"
        value={field}
        options={[...fields].map(([name, seen]) => [name, `${name} (${JSON.stringify(seen)})`] as const)}
        change={(next) => {
          setField(next);
          setBy("equals");
        }}
      />
      <Select label="Comparison" value={by} options={offered} change={(next) => setBy(next as Comparison)} />
      {by !== "exists" && <Field label="Value" value={value} change={setValue} placeholder={valueText(example)} />}
      <Button text="Add the condition" act={add} />
    </div>
  );
};
