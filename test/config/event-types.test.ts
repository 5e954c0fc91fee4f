// Event types in the config: what is taken, and what is refused with the name of the type.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { loadConfig } from "../../config/load.ts";
import { ConfigError } from "../../config/problems.ts";
import type { Plan } from "../../core/ports/plan.ts";

const base = mkdtempSync(join(tmpdir(), "relay-event-types-"));
afterAll(() => rmSync(base, { recursive: true }));
let count = 0;

function load(text: string): Promise<Plan> {
  const file = join(base, `config-${count++}.ts`);
  writeFileSync(file, `export default ${text};\n`);
  return loadConfig({ env: {}, flags: { config: file }, cwd: base }).then(({ plan }) => plan);
}
async function refused(text: string): Promise<string> {
  const error: unknown = await load(text).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(ConfigError);
  expect((error as ConfigError).exitCode).toBe(78);
  return (error as ConfigError).problems.map(({ path, message }) => `${path}: ${message}`).join("\n");
}

describe("event types", () => {
  it("may be a list of names, as before", async () => {
    const plan = await load(`{ events: ["a:b", "c"] }`);
    expect(plan.events).toEqual(["a:b", "c"]);
    expect(plan.eventTypes).toBeUndefined();
  });

  it("may say what each name stands for: data that differs is refused unless the config says otherwise", async () => {
    const plan = await load(`{ events: {
      "a:b": { schema: { type: "integer" }, example: 5, description: "A number.", deprecated: true },
      c: { schema: true, validate: "off" }, d: {},
    } }`);
    expect(plan.events).toEqual(["a:b", "c", "d"]);
    expect(plan.eventTypes).toEqual({
      "a:b": {
        schema: { type: "integer" },
        example: 5,
        description: "A number.",
        deprecated: true,
        validate: "refuse",
      },
      c: { schema: true, validate: "off" },
      d: { validate: "refuse" },
    });
    const warned = await load(`{ validate: "warn", events: { a: {}, b: { validate: "refuse" } } }`);
    expect(warned.eventTypes).toEqual({ a: { validate: "warn" }, b: { validate: "refuse" } });
  });

  it.each([
    [`{ events: "a" }`, `events: must be a list of names, or types by name: { "deposit:paid": { schema } }`],
    [`{ events: [5] }`, "events[0]: must be an event name"],
    [`{ events: { "relay:mine": {} } }`, `events["relay:mine"]: must be an event name`],
    [`{ events: { a: 5 } }`, "events.a: must be an object: { … }"],
    [`{ events: { a: { shema: {} } } }`, `events.a.shema: is unknown (did you mean "schema"?)`],
    [`{ events: { a: { schema: 5 } } }`, "events.a.schema: must be a JSON Schema"],
    [`{ events: { a: { validate: "maybe" } } }`, "events.a.validate: must be one of: off, warn, refuse"],
    [`{ validate: true }`, "validate: must be one of: off, warn, refuse"],
    [`{ events: { a: { example: 5n } } }`, "events.a.example: must be JSON"],
    [`{ events: { a: { example: "x".repeat(70000) } } }`, "events.a.example: must be at most 65536 bytes of JSON"],
    [
      `{ events: Object.fromEntries(Array.from({ length: 20 }, (_, i) => ["a" + i, { example: "x".repeat(60000) }])) }`,
      "events: must be at most 1048576 bytes of JSON in all",
    ],
    [
      `{ events: { "a:b": { schema: { type: "strin" } } } }`,
      `events["a:b"].schema.type: is not what JSON Schema 2020-12 allows here`,
    ],
    [
      `{ events: { "a:b": { schema: { properties: { n: { $ref: "https://example.com/n" } } } } } }`,
      `events["a:b"].schema.properties.n["$ref"]: must refer to a place in the schema itself`.replace(
        '["$ref"]',
        ".$ref",
      ),
    ],
    [
      `{ events: { "a:b": { schema: { type: "object", required: ["n"] }, example: {} } } }`,
      `events["a:b"].example: does not match the schema: data.n is missing`,
    ],
  ])("are refused: %s", async (text, message) => {
    expect(await refused(text)).toContain(message);
  });
});

it("A config whose types have no schema does not load the validator", async () => {
  const load = JSON.stringify(new URL("../../config/load.ts", import.meta.url).href);
  const compose = JSON.stringify(new URL("../../core/runtime/compose/compose.ts", import.meta.url).href);
  async function loaded(events: string): Promise<string> {
    const file = join(base, `config-${count++}.ts`);
    writeFileSync(file, `export default { events: ${events} };\n`);
    const script = `const [{ loadConfig }] = await Promise.all([import(${load}), import(${compose})]);
      await loadConfig({ env: {}, flags: { config: ${JSON.stringify(file)} }, cwd: "." });
      const { createRequire } = process.getBuiltinModule("module");
      const files = Object.keys(createRequire(${JSON.stringify(file)}).cache);
      process.stdout.write(String(files.some((one) => /[\\/]ajv[\\/]/.test(one))));`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
      cwd: base,
    });
    return stdout;
  }
  expect(await loaded(`{ "a:b": { description: "A fact." } }`)).toBe("false");
  expect(await loaded(`{ "a:b": { schema: { type: "object" } } }`)).toBe("true");
});
