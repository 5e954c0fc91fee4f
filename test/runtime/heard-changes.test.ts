/** Whether a thread may store new events by what it has heard: each change of a key counts, also long after. */
import { expect, it } from "vitest";
import { createHeardChanges } from "../../core/runtime/threads/heard-changes.ts";

const event = (key: string) => [{ op: "put", key: `event:${key}:1`, value: "", if: null }] as const;

it("a thread is outdated for the keys that have changed since, and for no others", () => {
  const heard = createHeardChanges();
  heard.changed(["subscription:a:sub_1", "control:x"]);
  const knows = heard.epoch;
  heard.changed(["control:x"]);
  expect(heard.epoch).toBe(knows);
  heard.changed(["subscription:b:sub_2"]);
  expect(heard.outdated(knows, event("a"))).toBe(false);
  expect(heard.outdated(knows, event("b"))).toBe(true);
  expect(heard.outdated(heard.epoch, event("b"))).toBe(false);
  heard.changed(["subscription:"]);
  expect(heard.outdated(knows + 1, event("a"))).toBe(true);
});

it("a change that is no longer remembered by its key outdates all that have not heard of it", () => {
  const heard = createHeardChanges(2);
  for (const key of ["a", "b", "c"]) heard.changed([`subscription:${key}:sub_1`]);
  expect(heard.outdated(0, event("a"))).toBe(true);
  expect(heard.outdated(0, event("z"))).toBe(true);
  expect(heard.outdated(1, event("z"))).toBe(false);
  expect(heard.outdated(1, event("b"))).toBe(true);
});
