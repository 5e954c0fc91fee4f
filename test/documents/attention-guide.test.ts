// The relay takes and answers what docs/attention.md shows, and names every state that there is.
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { ATTENTION_STATES } from "../../core/attention/judge.ts";
import { commandLine } from "../support/command-stage.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import { eventually } from "../support/until.ts";

const page = readFileSync(new URL("../../docs/attention.md", import.meta.url), "utf8");
const examples = [...page.matchAll(/^```http\n([A-Z]+) (\S+)\n(\{.*\}\n)?→ (\d+) (.*)\n```$/gm)];
const commands = [...page.matchAll(/^```sh\nrelay (.*)\n```$/gm)].map(([, words = ""]) => words);

it("the guide to what needs attention names each state", () => {
  expect([...page.matchAll(/^- `(\w+)`: /gm)].map(([, state]) => state)).toEqual([...ATTENTION_STATES]);
});

it("the examples of the guide to what needs attention are answered as it shows", async () => {
  await using receiver = await startReceiver({ script: [500] });
  await using relay = await startRelay({ retry: { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 } });
  const body = { url: receiver.url(), events: ["*"] };
  const id = (await relay.call("POST", "/api-keys/key_1/webhooks", { body })).json.data.id as string;
  await relay.publish([{ type: "a:b", keyId: "key_1", data: 1 }]);
  const failing = async () => ((await relay.call("GET", "/api-keys/key_1/attention")).json.data as unknown[]).length;
  await eventually("it needs attention", async () => (await failing()) === 1);
  expect(examples.length).toBe(page.match(/^```http$/gm)?.length);
  for (const [, method = "", path = "", sent, status, shape = ""] of examples) {
    const fields = [...shape.matchAll(/"(\w+)"/g)].map(([, field]) => field);
    const got = await relay.call(method, path, {
      body: sent && (JSON.parse(sent.replace("{subscriptionId}", id)) as object),
    });
    expect(got.status).toBe(Number(status));
    const { data } = got.json;
    expect(Object.keys(Array.isArray(data) ? data[0] : data).toSorted()).toEqual(fields.toSorted());
  }
  const env = { RELAY_URL: relay.url, RELAY_TOKEN: await relay.token() };
  const run = commandLine(() => ({ cwd: relay.dataDir, env }));
  expect(commands).toHaveLength(1);
  for (const words of commands) expect((await run(words)).stdout).toContain("0 of 1 delivered, 1 failed");
});
