// Fields that a source gives for events whose text has none.
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
