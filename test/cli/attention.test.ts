// What needs attention, and events by what became of their deliveries, as an operator types them.
import { expect, it } from "vitest";
import { commandLine, type Run } from "../support/command-stage.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, TEST_KEYS, type TestRelay } from "../support/relay.ts";
import { eventually } from "../support/until.ts";

const ONCE = { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 };

async function operator(relay: TestRelay): Promise<Run> {
  const RELAY_TOKEN = await relay.token();
  const env = { RELAY_URL: relay.url, RELAY_TOKEN, RELAY_PUBLISH_TOKEN: TEST_KEYS.publishToken };
  return commandLine(() => ({ cwd: relay.dataDir, env }));
}

it("relay attention says what is wrong, why, and what helps, and knows who knows of it", async () => {
  await using receiver = await startReceiver({ script: [500] });
  await using relay = await startRelay({ retry: ONCE });
  const run = await operator(relay);
  expect(await run("attention --key key_1")).toMatchObject({ code: 0, stderr: "relay: nothing needs attention\n" });
  const body = { url: receiver.url(), events: ["*"], description: "the shop" };
  const id = (await relay.call("POST", "/api-keys/key_1/webhooks", { body })).json.data.id as string;
  expect((await relay.publish([{ type: "a:b", keyId: "key_1", data: 1 }])).status).toBe(202);
  await eventually("it needs attention", async () => (await run("attention")).stdout !== "");
  expect((await run("attention")).stdout).toContain("failing  key_1  the shop  since ");
  const { stdout } = await run("attention");
  expect(stdout).toContain("  1 delivery has failed, the last one: HTTP 500\n");
  expect(stdout).toContain("  → See the log of the receiver: it fails by itself. Then replay what has failed.\n");
  expect(stdout).toMatch(/ {2}1 × 500, the last at \S+Z\n/);
  expect((await run(`attention --key key_1 --subscription ${id}`)).stdout).toBe(stdout);

  const known = await run(`attention acknowledge ${id}.failing --key key_1`);
  expect(known).toMatchObject({ code: 0, stderr: `relay: ${id}.failing is acknowledged\n` });
  expect((await run("attention --key key_1")).stdout).toContain("(acknowledged by ");
  expect((await run(`attention acknowledge ${id}.failing --key key_1 --undo --json`)).code).toBe(0);
  expect((await run("attention --key key_1")).stdout).toBe(stdout);
  const gone = await run(`attention acknowledge ${id}.down --key key_1`);
  expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining("needs no attention any more") });
  expect((await run("attention --subscription x")).code).toBe(64);

  const failed = await run("events list --key key_1 --delivery failed");
  expect(failed.stdout).toContain("0 of 1 delivered, 1 failed");
  expect((await run("events list --key key_1 --delivery pending")).stderr).toBe("relay: no such events\n");
  expect((await run("events list --key key_1 --delivery cancelled")).code).toBe(64);
});

it("relay events list goes on by itself to the next event that is found", async () => {
  await using relay = await startRelay();
  const run = await operator(relay);
  const batch = (from: number, count: number) =>
    relay.publish(
      Array.from({ length: count }, (_, i) => ({ type: "a:b", keyId: "key_1", id: `n:${from + i}`, data: 1 })),
    );
  expect((await batch(0, 1)).status).toBe(202);
  // More than one page looks at.
  for (let i = 0; i < 5; i++) expect((await batch(1 + i * 1_000, 1_000)).status).toBe(202);
  const path = "/api-keys/key_1/events?id=n:0";
  expect((await relay.call("GET", path)).json).toMatchObject({ data: [], meta: { nextCursor: expect.any(String) } });
  expect((await run("events list --key key_1 --id n:0")).stdout).toContain("n:0");
  const none = await run("events list --key key_1 --id m:");
  expect(none).toMatchObject({ code: 0, stdout: "", stderr: "relay: no such events\n" });
}, 60_000);
