// The examples of docs/publish.md, run in a shell against a relay and compared with the answers that the page shows.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { needs } from "../support/needs.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, TEST_KEYS, type TestRelay } from "../support/relay.ts";

const page = readFileSync(new URL("../../docs/publish.md", import.meta.url), "utf8");
const examples = [...page.matchAll(/^```sh run\n([\s\S]*?)^```\n\n```json answer\n([\s\S]*?)^```$/gm)].map(
  ([, script = "", answer = ""]) => ({ script, answer: JSON.parse(answer) as unknown }),
);
const missing = needs("curl");

let relay: TestRelay;
let receiver: Receiver;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "relay-publish-guide-"));
  mkdirSync(join(folder, "data/keys"), { recursive: true });
  writeFileSync(join(folder, "data/keys/publish-token"), `${TEST_KEYS.publishToken}\n`);
  receiver = await startReceiver();
  relay = await startRelay();
  const body = { url: receiver.url(), events: ["deposit:paid"] };
  await relay.call("POST", "/api-keys/key_1/webhooks", { body });
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

/** The same names, lists and plain values; times, and ids that the relay makes, may differ. */
function alike(value: unknown): unknown {
  if (typeof value === "string") {
    if (/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value)) return "a time";
    return value.replace(/^(evt|req)_\w{26}$/, "$1_…");
  }
  if (Array.isArray(value)) return value.map(alike);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, alike(inner)]));
}

describe("the guide to publishing", () => {
  it("shows the answer of each example", () => {
    expect(examples.length).toBe(page.match(/^```sh run$/gm)?.length);
    expect(examples.length).toBeGreaterThan(6);
  });

  it.for(examples)("shows what the relay answers: $script", async ({ script, answer }, { skip }) => {
    skip(missing !== undefined, missing);
    const command = script.replaceAll("http://127.0.0.1:8080", relay.url);
    const { stdout } = await promisify(execFile)("sh", ["-e", "-c", command], { cwd: folder });
    expect(alike(JSON.parse(stdout))).toEqual(alike(answer));
  });

  it("shows the body that a receiver gets", async () => {
    const [, shown = ""] = /^```text body\n(.*)\n```$/m.exec(page) ?? [];
    const { createdAt } = JSON.parse(shown) as { createdAt: string };
    const own = { type: "deposit:paid", keyId: "key_1", id: "order-18:paid", createdAt };
    await relay.publish(`${JSON.stringify(own).slice(0, -1)},"data":{"amount": "12.50"}}`);
    await expect
      .poll(() => receiver.requests.map(({ body }) => body.toString()))
      .toContain(shown.replace("order-17", "order-18"));
  });
});
