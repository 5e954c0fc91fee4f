// All attempts of a key written as NDJSON and CSV, over more than one page.
import { expect, it } from "vitest";
import { runHere } from "../support/command-here.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";

const COLUMNS =
  "id,eventId,type,acceptedAt,subscriptionId,subscriptionName,deliveryStatus,cycle,number,startedAt,durationMs,statusCode,error,detail";

it("relay events attempts --format writes all that is found, of every page", async () => {
  await using receiver = await startReceiver({ script: [{ do: "reset" }] });
  await using relay = await startRelay({ retry: { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 } });
  const env = { RELAY_URL: relay.url, RELAY_TOKEN: await relay.token() };
  const run = (...args: string[]) =>
    runHere(["events", "attempts", "--key", "key_1", ...args], { cwd: relay.dataDir, env });
  // A spreadsheet would take such a name for a formula.
  const body = { url: receiver.url(), events: ["*"], description: '=1+"2", 3' };
  await relay.call("POST", "/api-keys/key_1/webhooks", { body });
  expect(await run("--format", "csv")).toEqual({ code: 0, stdout: `${COLUMNS}\n`, stderr: "relay: 0 attempts\n" });

  const events = Array.from({ length: 205 }, (_, n) => ({ type: "a:b", keyId: "key_1", id: `order:${n}`, data: n }));
  expect((await relay.publish(events)).status).toBe(202);
  await expect.poll(async () => (await run("--format", "ndjson")).stderr).toBe("relay: 205 attempts\n");
  const lines = (await run("--format", "ndjson")).stdout.trim().split("\n");
  const found = lines.map((line) => JSON.parse(line) as { eventId: string });
  expect(new Set(found.map(({ eventId }) => eventId))).toEqual(new Set(events.map(({ id }) => id)));

  const answered = await run("--format", "ndjson", "--status-code", "200");
  expect(answered.stderr).toBe("relay: 204 attempts\n");
  expect(JSON.parse(answered.stdout.split("\n")[0] ?? "")).toMatchObject({ deliveryStatus: "delivered", number: 1 });
  const failed = await run("--format", "csv", "--error", "reset");
  const [head, line] = failed.stdout.split("\n");
  expect(head).toBe(COLUMNS);
  expect(line).toMatch(/,a:b,\S+Z,sub_\w+,"'=1\+""2"", 3",failed,0,1,\S+Z,\d+(?:\.\d+)?,,reset,$/);
  expect(failed.stderr).toBe("relay: 1 attempt\n");

  // It goes on where a list or an export ended, without the headings.
  const first = await run("--limit", "200", "--json");
  const cursor = /--cursor (\S+)$/m.exec(first.stderr)?.[1] ?? "";
  const rest = await run("--format", "csv", "--cursor", cursor);
  expect(rest.stdout).not.toContain(COLUMNS);
  expect(rest.stdout.trim().split("\n").length).toBe(205 - (JSON.parse(first.stdout) as unknown[]).length);

  // A cursor that is refused goes on nowhere.
  const wrong = await run("--format", "csv", "--cursor", "abc");
  expect(wrong).toMatchObject({ stdout: "", stderr: expect.stringContaining("cursor: is not a cursor of this list") });
  expect(wrong.stderr).not.toContain("it stopped there");
});

it("a name that begins with a full-width sign, which some spreadsheets read as a formula, begins with an apostrophe", async () => {
  await using receiver = await startReceiver();
  await using relay = await startRelay();
  const env = { RELAY_URL: relay.url, RELAY_TOKEN: await relay.token() };
  const body = { url: receiver.url(), events: ["*"], description: "＝1+1" };
  await relay.call("POST", "/api-keys/key_1/webhooks", { body });
  expect((await relay.publish([{ type: "a:b", keyId: "key_1", data: 1 }])).status).toBe(202);
  const csv = async (): Promise<string> =>
    (await runHere(["events", "attempts", "--key", "key_1", "--format", "csv"], { cwd: relay.dataDir, env })).stdout;
  await expect.poll(csv).toContain(",'＝1+1,");
});

it.each([
  [["--format", "xml"], "--format must be ndjson or csv"],
  [["--format", "csv", "--limit", "5"], "--limit is for a list"],
  [["--format", "csv", "--json"], "--json is for a list"],
])("refuses %j", async (args, told) => {
  const { code, stdout, stderr } = await runHere(["events", "attempts", "--key", "key_1", "--token", "t", ...args]);
  expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
  expect(stderr).toContain(told);
});
