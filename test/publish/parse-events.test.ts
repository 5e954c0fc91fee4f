// Fields that a source gives for events whose text has none, and the turns that reading a long list leaves others.
import { expect, it } from "vitest";
import { Problem } from "../../core/model/problem.ts";
import { parseEvents } from "../../core/publish/parse-events.ts";

const defaults = { id: "orders-1-0", type: "order.paid", keyId: "key_1" };
const one = (text: string, given = {}) => parseEvents([{ text, path: "", defaults: given }], undefined);

it("fill in what a text leaves out, and its data stays as it is", () => {
  expect(one('{"data":{"n":1.0}}', defaults)).toMatchObject([{ ...defaults, data: '{"n":1.0}' }]);
});

it("count only where the text says nothing", () => {
  const text = '{"id":"mine","type":"a","keyId":"k","data":1}';
  expect(one(text, defaults)).toMatchObject([{ id: "mine", type: "a", keyId: "k" }]);
  expect(() => one('{"id":null,"type":"a","keyId":"k","data":1}', defaults)).toThrow(Problem);
});

it("are checked as those of a text are", () => {
  const wrong = (): unknown => one('{"data":1}', { id: "é", type: "", keyId: " " });
  expect(wrong).toThrow(Problem);
  try {
    wrong();
  } catch (error) {
    expect((error as Problem).extras.errors?.map(({ path }) => path)).toEqual(["type", "keyId", "id"]);
  }
});

it("a long list leaves other work its turns, and one that is wrong at its end is refused whole", async () => {
  const text = JSON.stringify({ type: "a", keyId: "k", data: "x".repeat(200_000) });
  const list = Array.from({ length: 40 }, (_, i) => ({ text, path: `[${i}]` }));
  let turns = 0;
  const turn = async (): Promise<void> => void turns++;
  const whole = parseEvents(list, undefined, undefined, turn);
  expect(whole).toBeInstanceOf(Promise);
  expect((await whole).map(({ path }) => path)).toEqual(list.map(({ path }) => path));
  expect(turns).toBeGreaterThanOrEqual(39);
  const wrong = [{ text: "{}", path: "[0]" }, ...list, { text: "{", path: "[41]" }];
  const refused = await Promise.resolve(parseEvents(wrong, undefined)).catch((error: unknown) => error);
  expect((refused as Problem).extras.errors?.map(({ path }) => path)).toEqual([
    "[41]",
    "[0].type",
    "[0].keyId",
    "[0].data",
  ]);
});

it("a list of a thousand short events is read at once", () => {
  const text = '{"type":"a","keyId":"k","data":1}';
  expect(
    parseEvents(
      Array.from({ length: 1_000 }, () => ({ text, path: "" })),
      undefined,
    ),
  ).toHaveLength(1_000);
});
