// docs/filters.md says of its filters what they do.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { filter as schema } from "../../core/api/resources/filter-schema.ts";
import { compileFilter, FILTER_BOUNDS, type Filter } from "../../core/model/filter.ts";
import { kept } from "../support/kept.ts";
import { startRelay } from "../support/relay.ts";

const page = readFileSync(new URL("../../docs/filters.md", import.meta.url), "utf8");
/** Each filter with the rows of the table below it: data, and whether it matches. */
const examples = [...page.matchAll(/^```json filter\n([\s\S]*?)^```\n\n((?:\|.*\|\n)+)/gm)].flatMap(
  ([, filter = "", table = ""]) =>
    [...table.matchAll(/^\| `(\{.*\})` *\| (matches|does not)\b/gm)].map(([, data = "", says = ""]) => ({
      filter: JSON.parse(filter) as Filter,
      data,
      says,
    })),
);

const relay = kept(await startRelay());

describe("the guide to filters", () => {
  it("has a table below each filter", () => {
    const filters = page.match(/^```json filter$/gm)?.length ?? 0;
    expect(new Set(examples.map(({ filter }) => JSON.stringify(filter))).size).toBe(filters);
    expect(examples.length).toBe(page.match(/^\| `\{/gm)?.length);
  });

  it.each(examples)("$filter on $data: $says", ({ filter, data, says }) => {
    expect(schema.parse(filter)).toEqual(filter);
    const matched = compileFilter(filter).matches({ type: "deposit:paid", data: JSON.parse(data) as unknown });
    expect(matched).toBe(says === "matches");
  });

  it("names the bounds", () => {
    const { bytes, depth, nodes, values, names, nameLength } = FILTER_BOUNDS;
    expect(page.replaceAll(/\s+/g, " ")).toContain(
      `${depth} levels, ${nodes} parts, ${values} values in an \`in\`, ${names} names in a path, ${nameLength} characters in a name, and ${bytes} bytes`,
    );
  });

  it("shows requests as the relay takes them, and the answer of the test", async () => {
    const requests = [...page.matchAll(/^```http\n(\w+) (\S+)\n(\{.*\})\n```$/gm)];
    expect(requests.map(([, method]) => method)).toEqual(["PATCH", "POST"]);
    const hook = { url: "https://hooks.example.com/relay", events: ["deposit:paid"] };
    const made = await relay.call("POST", "/api-keys/key_1/webhooks", { body: hook });
    let answer: unknown;
    for (const [, method = "", path = "", body = ""] of requests) {
      const target = path.replace("{subscriptionId}", made.json.data.id as string);
      const got = await relay.call(method, target, { body });
      expect(got.status).toBe(200);
      answer = got.json.data;
    }
    const [, shown = ""] = /^```json answer\n([\s\S]*?)^```$/m.exec(page) ?? [];
    expect(answer).toEqual(JSON.parse(shown));
  });
});
