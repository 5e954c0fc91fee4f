/** The whole storage against a model that fits on a page, with commands that fast-check makes up. */
import fc from "fast-check";
import { expect } from "vitest";
import { ConflictError } from "../../core/model/errors.ts";
import type { Change, RangeOptions } from "../../core/ports/storage.ts";
import type { Bench } from "./storage.ts";

const shelf = fc.constantFrom("event", "eventid", "due", "delivery", "meta", "subscription", "failed");
const name = fc.constantFrom("a", "ab", "a-", "a~", "B");
const key = fc
  .tuple(shelf, name, fc.integer({ min: 0, max: 5 }))
  // A storage reads the keys of due lines.
  .map(([first, second, third]) => `${first}:${second}:${first === "due" ? `${"0".repeat(13)}:` : ""}${third}`);
const text = fc.constantFrom("", "0", "1", "ü", "line\nline");

const change: fc.Arbitrary<Change> = fc.oneof(
  { arbitrary: fc.record({ op: fc.constant("put" as const), key, value: text }), weight: 5 },
  { arbitrary: fc.record({ op: fc.constant("delete" as const), key }), weight: 2 },
  {
    arbitrary: fc.record({ op: fc.constant("put" as const), key, value: text, if: fc.option(text, { nil: null }) }),
    weight: 1,
  },
  { arbitrary: fc.record({ op: fc.constant("delete" as const), key, if: text }), weight: 1 },
  { arbitrary: fc.record({ op: fc.constant("check" as const), key, if: fc.option(text, { nil: null }) }), weight: 1 },
);
const prefix = fc.oneof(
  fc.constant(""),
  shelf,
  shelf.map((first) => `${first}:`),
  fc.tuple(shelf, name).map(([first, second]) => `${first}:${second}:`),
);
const options: fc.Arbitrary<RangeOptions> = fc.record(
  { after: key, limit: fc.integer({ min: 0, max: 8 }), reverse: fc.boolean() },
  { requiredKeys: [] },
);
const command = fc.oneof(
  {
    arbitrary: fc.record({
      do: fc.constant("commit" as const),
      changes: fc.uniqueArray(change, { maxLength: 5, selector: (one) => one.key }),
    }),
    weight: 3,
  },
  { arbitrary: fc.record({ do: fc.constant("range" as const), prefix, options }), weight: 3 },
  { arbitrary: fc.record({ do: fc.constant("get" as const), keys: fc.array(key, { maxLength: 5 }) }), weight: 1 },
  { arbitrary: fc.record({ do: fc.constant("reopen" as const) }), weight: 1 },
);

export function modelLaws({ open, reopen, law, harness }: Bench): void {
  const canReopen = harness.reopen !== undefined && harness.skips?.reopen === undefined;

  law(
    "behaves like a sorted map, whatever is asked of it in whatever order",
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 25 }), async (commands) => {
          let storage = await open();
          const model = new Map<string, string>();
          for (const one of commands) {
            if (one.do === "reopen") {
              if (canReopen) storage = await reopen(storage);
            } else if (one.do === "get") {
              expect(await storage.getMany(one.keys)).toEqual(one.keys.map((each) => model.get(each)));
            } else if (one.do === "range") {
              expect(await storage.range(one.prefix, one.options)).toEqual(modelRange(model, one.prefix, one.options));
            } else {
              const unmet = one.changes.filter(
                ({ key: at, if: cond }) => cond !== undefined && model.get(at) !== (cond ?? undefined),
              );
              const error: unknown = await storage.commit(one.changes).then(
                () => undefined,
                (reason: unknown) => reason,
              );
              if (unmet.length > 0) {
                expect(error).toBeInstanceOf(ConflictError);
                expect((error as ConflictError).keys.toSorted()).toEqual(unmet.map(({ key: at }) => at).toSorted());
                continue;
              }
              expect(error).toBeUndefined();
              for (const each of one.changes) {
                if (each.op === "put") model.set(each.key, each.value);
                else if (each.op === "delete") model.delete(each.key);
              }
            }
          }
          await storage.dispose();
        }),
        { numRuns: harness.runs ?? 60 },
      );
    },
    "conditions",
    "atomic",
  );
}

function modelRange(model: ReadonlyMap<string, string>, start: string, { after, limit = 100, reverse }: RangeOptions) {
  const entries = [...model]
    .map(([at, value]) => ({ key: at, value }))
    .filter(({ key: at }) => at.startsWith(start))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));
  if (reverse) entries.reverse();
  return entries.filter(({ key: at }) => after === undefined || (reverse ? at < after : at > after)).slice(0, limit);
}
