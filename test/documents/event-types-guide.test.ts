// What docs/event-types.md says of its types is what they do.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadConfig } from "../../config/load.ts";
import { VALIDATE } from "../../config/defaults.ts";
import { MAX_TYPE_BYTES, MAX_TYPES_BYTES } from "../../core/model/event-type.ts";
import { testFolder } from "../support/folder.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";

const page = readFileSync(new URL("../../docs/event-types.md", import.meta.url), "utf8");
const block = (info: string): string => new RegExp(`^\`\`\`${info}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page)?.[1] ?? "";

const folder = testFolder();
let relay: TestRelay;
beforeAll(async () => {
  const file = join(folder, "relay.config.ts");
  writeFileSync(file, block("ts config"));
  const { plan } = await loadConfig({ env: {}, flags: { config: file }, cwd: folder });
  relay = await startRelay({ events: plan.eventTypes ?? {} });
});
afterAll(() => relay?.[Symbol.asyncDispose]());

describe("the guide to event types", () => {
  it("shows what a publisher is refused with, and an example that is taken", async () => {
    const [, data = ""] = /Published with `(\{.*?\})`/.exec(page) ?? [];
    const event = { type: "deposit:paid", keyId: "key_1" };
    const refused = await relay.publish({ ...event, data: JSON.parse(data) as unknown });
    expect(refused.status).toBe(400);
    expect(refused.json.errors).toEqual(JSON.parse(block("json answer")));
    const [, example = ""] = /^ {6}example: (\{.*\}),$/m.exec(page) ?? [];
    const taken = JSON.parse(example.replaceAll(/(\w+):/g, '"$1":')) as unknown;
    expect((await relay.publish({ ...event, data: taken })).status).toBe(202);
  });

  it("names the default and the bounds", () => {
    expect(page).toContain(`\`"${VALIDATE}"\` (default)`);
    expect(page).toContain(`${MAX_TYPE_BYTES / 1_024} KiB each`);
    expect(page).toContain(`${MAX_TYPES_BYTES / 1_048_576} MiB`);
  });
});
