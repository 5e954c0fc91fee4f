// `relay events import`: the webhooks of an OpenAPI document as event types that the config takes.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../config/load.ts";
import { openApiTypes } from "../../cli/import/openapi.ts";
import { runHere } from "../support/command-here.ts";
import { testFolder } from "../support/folder.ts";

const folder = testFolder();
const run = (args: readonly string[], input?: string) =>
  runHere(["events", "import", ...args], { cwd: folder, ...(input !== undefined && { input }) });
const page = readFileSync(new URL("../../docs/event-types.md", import.meta.url), "utf8");
const documented = /^```yaml\n([\s\S]*?)^```$/m.exec(page)?.[1] ?? "";

const hook = (schema: unknown, more: object = {}, media: object = {}) => ({
  post: { requestBody: { content: { "application/json": { schema, ...media } } }, ...more },
});
const read = (webhooks: object, schemas: object = {}) => openApiTypes({ webhooks, components: { schemas } });

describe("webhooks of an OpenAPI document", () => {
  it("become types that stand by themselves", () => {
    const Money = { type: "object", properties: { currency: { $ref: "#/components/schemas/Currency" }, $ref: true } };
    const Currency = { enum: ["EUR", { $ref: "#/stays" }], nullable: true, type: "string" };
    const found = read(
      {
        "deposit:paid": hook(
          { properties: { paid: { $ref: "#/components/schemas/Money" }, fee: { $ref: "#/components/schemas/Money" } } },
          { summary: "Short.", deprecated: true },
          { examples: { one: { value: { paid: {} } } } },
        ),
      },
      { Money, Currency },
    );
    expect(found?.notes).toEqual([]);
    expect(found?.types).toEqual({
      "deposit:paid": {
        description: "Short.",
        deprecated: true,
        schema: {
          properties: { paid: { $ref: "#/$defs/Money" }, fee: { $ref: "#/$defs/Money" } },
          $defs: {
            Money: { type: "object", properties: { currency: { $ref: "#/$defs/Currency" }, $ref: true } },
            Currency: { enum: ["EUR", { $ref: "#/stays" }], type: ["string", "null"] },
          },
        },
        example: { paid: {} },
      },
    });
  });

  it("whose body is a delivery give the schema and the example of its data, and its name", () => {
    const properties = { id: {}, type: { const: "deposit.paid" }, data: { type: "integer" } };
    const found = read({ depositPaid: hook({ properties }, {}, { example: { type: "deposit.paid", data: 5 } }) });
    expect(found).toEqual({ types: { "deposit.paid": { schema: { type: "integer" }, example: 5 } }, notes: [] });
  });

  it("that cannot be used are left out with the reason, and the others stay", () => {
    const found = read({
      "not a name": hook({}),
      "relay:mine": hook({}),
      get: { get: {} },
      away: hook({ $ref: "https://example.com/x.json" }),
      lost: hook({ properties: { a: { $ref: "#/components/schemas/None" } } }),
      round: { $ref: "#/webhooks/round" },
      ["__proto__"]: hook({}),
      good: hook({ type: "object" }),
    });
    expect(Object.keys(found?.types ?? {})).toEqual(["lost", "good"]);
    expect(found?.notes).toEqual([
      expect.stringContaining("not a name: left out: its name is no event name"),
      expect.stringContaining("relay:mine: left out: its name is no event name"),
      "get: left out: it has no POST operation",
      "away: left out: it refers to another document: https://example.com/x.json",
      "lost: its schema is left out: it refers to what is not there: #/components/schemas/None",
      "round: left out: its references lead in a circle",
      expect.stringContaining("__proto__: left out: its name is no event name"),
    ]);
    expect(openApiTypes({ openapi: "3.1.0" })).toBeUndefined();
  });
});

describe("relay events import", () => {
  it("writes a module that the config imports", { timeout: 240_000 }, async () => {
    writeFileSync(join(folder, "openapi.yaml"), documented);
    const written = await run(["openapi.yaml", "--output", "events.ts"]);
    expect([written.code, written.stderr]).toEqual([0, "relay: 1 event type, in events.ts\n"]);
    expect((await run(["openapi.yaml", "--output", "events.ts"])).code).toBe(1);
    const config = join(folder, "relay.config.ts");
    writeFileSync(config, `import { events } from "./events.ts";\nexport default { events };\n`);
    const { plan } = await loadConfig({ env: {}, flags: { config }, cwd: folder });
    expect(plan.eventTypes).toEqual({
      "deposit:paid": {
        description: "A customer's deposit has arrived.",
        schema: {
          $ref: "#/$defs/Deposit",
          $defs: { Deposit: { type: "object", required: ["amount"], properties: { amount: { type: "string" } } } },
        },
        example: { amount: "12.50" },
        validate: "refuse",
      },
    });
  });

  it("leaves out schemas and examples that the config would refuse", { timeout: 240_000 }, async () => {
    const document = {
      webhooks: {
        tree: hook({ $ref: "#/components/schemas/Tree" }),
        wrong: hook({ type: "string" }, {}, { example: 5 }),
      },
      components: { schemas: { Tree: { properties: { child: { $ref: "#/components/schemas/Tree" } } } } },
    };
    const { code, stdout, stderr } = await run(["-", "--json"], JSON.stringify(document));
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ tree: {}, wrong: { schema: { type: "string" } } });
    expect(stderr).toMatch(/tree: its schema is left out: .*refers to itself/);
    expect(stderr).toContain("wrong: its example is left out: does not match the schema: data must be text");
  });

  it.each([
    ["a: [", "neither JSON nor YAML"],
    ["- a", "no OpenAPI document"],
    ["openapi: 3.1.0", "has no webhooks"],
    ["a: &a [*a]", "an alias in it holds itself"],
    ["a: [1, 2, 3]\n".padEnd(17 * 1_048_576, "#"), "larger than 16 MiB"],
  ])("refuses what is no such document: %.20s", { timeout: 240_000 }, async (text, why) => {
    const { code, stderr } = await run(["-"], text);
    expect(code).toBe(why.startsWith("larger") ? 64 : 65);
    expect(stderr).toContain(why);
    expect(stderr).not.toContain("    at ");
  });

  it("says nothing of its own about a tag that it does not know", async () => {
    const warnings: Error[] = [];
    const warned = (warning: Error): void => void warnings.push(warning);
    process.on("warning", warned);
    expect(await run(["-"], "webhooks: !!js/function {}\n")).toMatchObject({
      code: 0,
      stderr: "relay: 0 event types\n",
    });
    await new Promise((resolve) => void setImmediate(resolve));
    process.off("warning", warned);
    expect(warnings).toEqual([]);
  });

  it("says which file it cannot read, and writes nothing", { timeout: 240_000 }, async () => {
    expect(await run(["nowhere.yaml", "--output", "none.ts"])).toMatchObject({ code: 64 });
    expect(existsSync(join(folder, "none.ts"))).toBe(false);
  });
});
