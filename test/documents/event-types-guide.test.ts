// docs/event-types.md says of its types what they do.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../config/load.ts";
import { VALIDATE } from "../../config/defaults.ts";
import { MAX_TYPE_BYTES, MAX_TYPES_BYTES } from "../../core/model/event-type.ts";
import { verifyHex } from "../../core/signing/verify.ts";
import { testFolder } from "../support/folder.ts";
import { kept } from "../support/kept.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";

const page = readFileSync(new URL("../../docs/event-types.md", import.meta.url), "utf8");
const block = (info: string): string => new RegExp(`^\`\`\`${info}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page)?.[1] ?? "";

const folder = testFolder();
const file = join(folder, "relay.config.ts");
writeFileSync(file, block("ts config"));
const { plan } = await loadConfig({ env: {}, flags: { config: file }, cwd: folder });
const receiver = kept(await startReceiver());
const relay = kept(await startRelay({ events: plan.eventTypes ?? {} }));

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

  it("shows how the example of a type is sent as a test event", async () => {
    const [, method = "", path = "", body = ""] = /^```http\n(\w+) (\S+)\n(\{.*\})\n```$/m.exec(page) ?? [];
    const made = await relay.call("POST", "/api-keys/key_1/webhooks", {
      body: { url: receiver.url("/hook"), events: ["deposit:seen"] },
    });
    const { id, secret } = made.json.data as { readonly id: string; readonly secret: string };
    const got = await relay.call(method, path.replace("{subscriptionId}", id), { body });
    expect(got.json.data).toMatchObject({ statusCode: 200 });
    const [sent] = await receiver.waitFor(1);
    const shown = await relay.call("GET", "/event-types/deposit:paid");
    const data = shown.json.data.example as unknown;
    expect(data).toBeDefined();
    expect(JSON.parse(String(sent?.body))).toMatchObject({ type: "deposit:paid", keyId: "key_1", data });
    expect(sent?.headers["x-relay-event"]).toBe("deposit:paid");
    expect(verifyHex(sent?.body as Buffer, sent?.headers ?? {}, secret)).toBe(true);
    const { json } = await relay.call("GET", "/api-keys/key_1/audit");
    expect(json.data).toContainEqual(
      expect.objectContaining({ action: "subscription.tested", detail: "example of deposit:paid" }),
    );
    for (const type of ["deposit:seen", "no:such", "toString"]) {
      const refused = await relay.call(method, path.replace("{subscriptionId}", id), { body: { type } });
      expect(refused.json.errors).toEqual([{ path: "type", message: "names no event type that has an example" }]);
    }
  });

  it("names the default and the bounds", () => {
    expect(page).toContain(`\`"${VALIDATE}"\` (default)`);
    expect(page).toContain(`${MAX_TYPE_BYTES / 1_024} KiB each`);
    expect(page).toContain(`${MAX_TYPES_BYTES / 1_048_576} MiB`);
  });
});
