// The figures of a key, of a subscription and of the whole relay on the terminal.
import { expect, it } from "vitest";
import { runHere } from "../support/command-here.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";

it("relay stats prints totals and the busy steps, of a key, a subscription or the relay", async () => {
  await using receiver = await startReceiver();
  await using relay = await startRelay();
  const env = { RELAY_URL: relay.url, RELAY_TOKEN: await relay.token() };
  const run = (...args: string[]) => runHere(["stats", ...args], { cwd: relay.dataDir, env });
  const quiet = await run("--key", "key_1");
  expect(quiet).toMatchObject({ code: 0, stderr: "relay: nothing happened in that time\n" });
  expect(quiet.stdout).toMatch(/^accepted +0$[^]*^p50 +– ms$[^]*^backlog +0$/m);

  const subscribe = async (events: readonly string[]): Promise<string> =>
    (await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: receiver.url(), events } })).json.data.id;
  await subscribe(["*"]);
  const one = await subscribe(["a:b"]);
  for (const type of ["a:b", "c:d"]) await relay.publish({ type, keyId: "key_1", data: 1 });
  await relay.publish({ type: "a:b", keyId: "key_2", data: 1 });
  // Of the key: two events, one of them for both subscriptions.
  await expect.poll(async () => (await run("--key", "key_1")).stdout).toMatch(/^delivered +3$/m);
  const shown = await run("--key", "key_1", "--range", "24h");
  expect(shown).toMatchObject({ code: 0, stderr: "" });
  expect(shown.stdout).toMatch(/^accepted +2\nfiltered +0\nattempts +3\ndelivered +3\nfailed +0\np50 +[\d.]+ ms\n/);
  const [head, ...steps] = shown.stdout.trimEnd().split("\n\n")[1]?.split("\n") ?? [];
  expect(head).toMatch(/^FROM +ACCEPTED +FILTERED +ATTEMPTS +DELIVERED +FAILED +REFUSED +P50 MS +P99 MS +BACKLOG$/);
  // The ten minutes may end meanwhile.
  expect([1, 2]).toContain(steps.length);
  for (const step of steps) expect(step).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d0:00\.000Z +\d/);

  const json = async (...args: string[]): Promise<unknown> => JSON.parse((await run(...args, "--json")).stdout);
  expect(await json("--key", "key_1", "--subscription", one)).toMatchObject({
    range: "1h",
    stepMs: 60_000,
    totals: { accepted: 1, delivered: 1 },
  });

  // The counts of keys are added up for the whole relay every ten seconds, and at a stop.
  await relay.stop();
  await using again = await startRelay({}, relay.dataDir);
  env.RELAY_URL = again.url;
  expect(await json("--range", "7d")).toMatchObject({
    range: "7d",
    stepMs: 3_600_000,
    totals: { accepted: 3, attempts: 3, delivered: 3 },
  });
  expect((await run()).stdout).toMatch(/^accepted +3\n/);
});

it.each([
  [["--range", "2h"], "--range must be 1h, 24h or 7d"],
  [["--subscription", "sub_1"], "--subscription needs the --key"],
])("refuses %j", async (args, told) => {
  const { code, stdout, stderr } = await runHere(["stats", "--token", "t", ...args]);
  expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
  expect(stderr).toContain(told);
});

it("says that a token of one key may not see the whole relay", async () => {
  await using relay = await startRelay();
  const env = { RELAY_URL: relay.url, RELAY_TOKEN: await relay.token({ keys: ["key_1"] }) };
  const refused = await runHere(["stats"], { cwd: relay.dataDir, env });
  expect(refused).toMatchObject({ code: 1, stdout: "" });
  expect((await runHere(["stats", "--key", "key_1"], { cwd: relay.dataDir, env })).code).toBe(0);
});
