// docs/transforms.md says of its transforms what they do.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { TRANSFORM_LIMITS } from "../../config/defaults.ts";
import { MAX_TRANSFORM_DETAIL, MAX_TRANSFORMED_BYTES } from "../../core/model/transform.ts";
import { METRIC_TABLE } from "../../core/runtime/observability/metric-table.ts";
import { testFolder } from "../support/folder.ts";
import { kept } from "../support/kept.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import { transformSpawner } from "../support/transform-spawner.ts";

const page = readFileSync(new URL("../../docs/transforms.md", import.meta.url), "utf8");
const block = (info: string): string => new RegExp(`^\`\`\`${info}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page)?.[1] ?? "";

const folder = testFolder();
writeFileSync(join(folder, "relay.config.ts"), block("ts config"));
const receiver = kept(await startReceiver());
const names = [...block("ts config").matchAll(/^ {4}(\w+): \(/gm)].map(([, name = ""]) => name);
const never = () => ({});
const relay = kept(
  await startRelay(
    {
      transforms: Object.fromEntries(names.map((name) => [name, never])),
      // Long enough for a busy machine.
      transformLimits: { timeoutMs: 10_000 },
    },
    undefined,
    undefined,
    await transformSpawner(folder),
  ),
);

describe("the guide to transforms", () => {
  it("shows a request as the relay takes it, and the body that arrives then", async () => {
    const [, method = "", path = "", body = ""] = /^```http\n(\w+) (\S+)\n(\{.*\})\n```$/m.exec(page) ?? [];
    const hook = { url: receiver.url("/slack"), events: ["deposit:paid"] };
    const made = await relay.call("POST", "/api-keys/key_1/webhooks", { body: hook });
    const got = await relay.call(method, path.replace("{subscriptionId}", made.json.data.id as string), { body });
    expect(got.status).toBe(200);
    const [, data = ""] = /Published with `(\{.*?\})`/.exec(page) ?? [];
    await relay.publish({ type: "deposit:paid", keyId: "key_1", data: JSON.parse(data) as unknown });
    const [sent] = await receiver.waitFor(1, 60_000);
    expect(JSON.parse(String(sent?.body))).toEqual(JSON.parse(block("json answer")));
  });

  it("lists the names that the config has", async () => {
    const { json } = await relay.call("GET", "/transforms");
    expect(json.data).toEqual([{ name: "slack" }, { name: "plain" }]);
  });

  it("names the bounds and the results", () => {
    for (const [name, value] of Object.entries(TRANSFORM_LIMITS))
      expect(page).toMatch(new RegExp(`^\\| \`${name}\` +\\| ${value} +\\|`, "m"));
    expect(page).toContain(`${MAX_TRANSFORMED_BYTES / 1_024} KiB`);
    expect(page).toContain(`The first ${MAX_TRANSFORM_DETAIL} characters`);
    for (const result of METRIC_TABLE["transforms"]?.known ?? []) expect(page).toContain(`\`${result}\``);
  });
});
