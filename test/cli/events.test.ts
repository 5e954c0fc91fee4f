// Events, attempts, deliveries and figures of a relay, listed, exported, replayed, tried and cancelled as an operator types them.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { commandLine, ends, refused, type Run } from "../support/command-stage.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, TEST_KEYS, type TestRelay, type TokenClaims } from "../support/relay.ts";

const ONCE = { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 };

/** Returns a function that runs command lines for this relay. */
async function operator(relay: TestRelay, claims?: TokenClaims): Promise<Run> {
  const RELAY_TOKEN = await relay.token(claims);
  const env = { RELAY_URL: relay.url, RELAY_TOKEN, RELAY_PUBLISH_TOKEN: TEST_KEYS.publishToken };
  return commandLine(() => ({ cwd: relay.dataDir, env }));
}
async function subscribe(relay: TestRelay, url: string, events = ["*"], description?: string): Promise<string> {
  const body = { url, events, description };
  return (await relay.call("POST", "/api-keys/key_1/webhooks", { body })).json.data.id;
}
const cursorIn = (stderr: string): string => /^relay: .*--cursor (\S+)$/m.exec(stderr)?.[1] ?? "";

describe("relay events attempts --format", () => {
  const COLUMNS =
    "id,eventId,type,acceptedAt,subscriptionId,subscriptionName,deliveryStatus,cycle,number,startedAt,durationMs,statusCode,error,detail";

  it("writes all attempts that are found, of every page", async () => {
    await using receiver = await startReceiver({ script: [{ do: "reset" }] });
    await using relay = await startRelay({ retry: ONCE });
    const command = await operator(relay);
    const run: Run = (words, ...more) => command(`events attempts --key key_1 ${words}`, ...more);
    // A spreadsheet would take such a name for a formula.
    await subscribe(relay, receiver.url(), ["*"], '=1+"2", 3');
    expect(await run("--format csv")).toEqual({ code: 0, stdout: `${COLUMNS}\n`, stderr: "relay: 0 attempts\n" });

    const events = Array.from({ length: 205 }, (_, n) => ({ type: "a:b", keyId: "key_1", id: `order:${n}`, data: n }));
    expect((await relay.publish(events)).status).toBe(202);
    await expect.poll(async () => (await run("--format ndjson")).stderr).toBe("relay: 205 attempts\n");
    const lines = (await run("--format ndjson")).stdout.trim().split("\n");
    const found = lines.map((line) => JSON.parse(line) as { eventId: string });
    expect(new Set(found.map(({ eventId }) => eventId))).toEqual(new Set(events.map(({ id }) => id)));

    const answered = await run("--format ndjson --status-code 200");
    expect(answered.stderr).toBe("relay: 204 attempts\n");
    expect(JSON.parse(answered.stdout.split("\n")[0] ?? "")).toMatchObject({ deliveryStatus: "delivered", number: 1 });
    const failed = await run("--format csv --error reset");
    const [head, line] = failed.stdout.split("\n");
    expect(head).toBe(COLUMNS);
    expect(line).toMatch(/,a:b,\S+Z,sub_\w+,"'=1\+""2"", 3",failed,0,1,\S+Z,\d+(?:\.\d+)?,,reset,[^,]+$/);
    expect(failed.stderr).toBe("relay: 1 attempt\n");

    // It goes on where a list or an export ended, without the headings.
    const first = await run("--limit 200 --json");
    const rest = await run("--format csv --cursor", cursorIn(first.stderr));
    expect(rest.stdout).not.toContain(COLUMNS);
    expect(rest.stdout.trim().split("\n").length).toBe(205 - (JSON.parse(first.stdout) as unknown[]).length);

    // A cursor that is refused goes on nowhere.
    const wrong = await run("--format csv --cursor abc");
    expect(wrong).toMatchObject({
      stdout: "",
      stderr: expect.stringContaining("cursor: is not a cursor of this list"),
    });
    expect(wrong.stderr).not.toContain("it stopped there");
  });

  it("begins a name with an apostrophe that begins with a full-width sign, a formula for some spreadsheets", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay();
    const run = await operator(relay);
    await subscribe(relay, receiver.url(), ["*"], "＝1+1");
    expect((await relay.publish([{ type: "a:b", keyId: "key_1", data: 1 }])).status).toBe(202);
    const csv = async () => (await run("events attempts --key key_1 --format csv")).stdout;
    await expect.poll(csv).toContain(",'＝1+1,");
  });

  it.each([
    ["xml", "--format must be ndjson or csv"],
    ["csv --limit 5", "--limit is for a list"],
    ["csv --json", "--json is for a list"],
  ])("refuses %s", async (words, message) => {
    const run = commandLine(() => ({}));
    expect(await run(`events attempts --key key_1 --token t --format ${words}`)).toMatchObject(refused(64, message));
  });
});

describe("relay events try, cancel and attempts", () => {
  it("act on pending deliveries, and say what was refused", async () => {
    await using receiver = await startReceiver({ otherwise: 503 });
    const retry = { attempts: 5, firstDelayMs: 3_600_000, factor: 1, maxDelayMs: 3_600_000 };
    await using relay = await startRelay({ retry });
    const command = await operator(relay, { mfa: true });
    const run = (words: string) => command(`events ${words} --key key_1`);
    await subscribe(relay, receiver.url());
    await relay.publish({ type: "a:b", keyId: "key_1", id: "order:1", data: 1 });
    const codes = async (): Promise<readonly number[]> =>
      (JSON.parse((await run("attempts --json")).stdout) as { statusCode: number }[]).map(
        ({ statusCode }) => statusCode,
      );
    await expect.poll(codes).toEqual([503]);
    expect(await run("try order:1")).toMatchObject({ code: 0 });
    await expect.poll(codes).toEqual([503, 503]);
    const cancelled = await run("cancel order:1 order:2");
    expect(cancelled).toMatchObject(ends(1, "order:1: 1 cancelled"));
    expect(cancelled.stderr).toContain("order:2: No delivery of it is pending. (NOT_PENDING)");
    expect((await run("attempts --status-code 503")).stdout).toContain("order:1");
    expect((await run("attempts --error dns")).stderr).toContain("no such attempts");
  });
});

describe("relay subscriptions deliveries", () => {
  it("lists those of one subscription, by status and in pages", async () => {
    await using receiver = await startReceiver({ otherwise: 410 });
    await using good = await startReceiver();
    await using relay = await startRelay({ retry: ONCE });
    const command = await operator(relay);
    const [id, other] = [await subscribe(relay, good.url()), await subscribe(relay, receiver.url())];
    const list = (one: string, ...more: string[]) =>
      command(`subscriptions deliveries ${[one, "--key key_1", ...more].join(" ")}`);
    expect(await list(id)).toEqual({ code: 0, stdout: "", stderr: "relay: no such deliveries\n" });

    await relay.publish({ type: "a:b", keyId: "key_1", id: "order:1", data: 1 });
    await relay.publish({ type: "c:d", keyId: "key_1", id: "order:2", data: 2 });
    await expect.poll(async () => (await list(id, "--status delivered")).stdout.split("\n").length).toBe(4);
    const [head, newest, oldest] = (await list(id)).stdout.split("\n");
    expect(head).toMatch(/^EVENT +TYPE +STATUS +ATTEMPTS +LAST RESULT +CHANGED +NEXT ATTEMPT$/);
    expect(newest).toMatch(/^order:2 +c:d +delivered +1 +200 +\d{4}-\d\d-\d\dT\S+Z$/);
    expect(oldest).toMatch(/^order:1 +a:b +delivered +1 +200 +\S+Z$/);
    const failed = async () => (await list(other, "--status failed")).stdout;
    await expect.poll(failed).toMatch(/^order:1 +a:b +failed \(endpoint_gone\) +1 +410 /m);

    const page = await list(id, "--limit 1 --json");
    expect(JSON.parse(page.stdout)).toMatchObject([{ eventId: "order:2", subscriptionId: id }]);
    expect((await list(id, "--limit 1 --cursor", cursorIn(page.stderr))).stdout).toContain("order:1");
    expect(await list(id, "--status lost")).toMatchObject({ code: 64, stdout: "" });
    expect(await list("sub_nothing")).toMatchObject({ code: 1, stdout: "" });
  });
});

describe("relay stats", () => {
  it("prints totals and the busy steps, of a key, a subscription or the relay", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay();
    const run = await operator(relay);
    const quiet = await run("stats --key key_1");
    expect(quiet).toMatchObject({ code: 0, stderr: "relay: nothing happened in that time\n" });
    expect(quiet.stdout).toMatch(/^accepted +0$[^]*^p50 +– ms$[^]*^backlog +0$/m);

    await subscribe(relay, receiver.url());
    const one = await subscribe(relay, receiver.url(), ["a:b"]);
    for (const type of ["a:b", "c:d"]) await relay.publish({ type, keyId: "key_1", data: 1 });
    await relay.publish({ type: "a:b", keyId: "key_2", data: 1 });
    // Of the key: two events, one of them for both subscriptions.
    await expect.poll(async () => (await run("stats --key key_1")).stdout).toMatch(/^delivered +3$/m);
    const shown = await run("stats --key key_1 --range 24h");
    expect(shown).toMatchObject({ code: 0, stderr: "" });
    expect(shown.stdout).toMatch(/^accepted +2\nfiltered +0\nattempts +3\ndelivered +3\nfailed +0\np50 +[\d.]+ ms\n/);
    const [head, ...steps] = shown.stdout.trimEnd().split("\n\n")[1]?.split("\n") ?? [];
    expect(head).toMatch(/^FROM +ACCEPTED +FILTERED +ATTEMPTS +DELIVERED +FAILED +REFUSED +P50 MS +P99 MS +BACKLOG$/);
    // The ten minutes may end meanwhile.
    expect([1, 2]).toContain(steps.length);
    for (const step of steps) expect(step).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d0:00\.000Z +\d/);
    const ofOne = await run(`stats --key key_1 --subscription ${one} --json`);
    const hour = { range: "1h", stepMs: 60_000, totals: { accepted: 1, delivered: 1 } };
    expect(JSON.parse(ofOne.stdout)).toMatchObject(hour);

    // The counts of keys are added up for the whole relay every ten seconds, and at a stop.
    await relay.stop();
    await using again = await startRelay({}, relay.dataDir);
    const afterwards = await operator(again);
    const week = { range: "7d", stepMs: 3_600_000, totals: { accepted: 3, attempts: 3, delivered: 3 } };
    expect(JSON.parse((await afterwards("stats --range 7d --json")).stdout)).toMatchObject(week);
    expect((await afterwards("stats")).stdout).toMatch(/^accepted +3\n/);
  });

  it.each([
    ["--range 2h", "--range must be 1h, 24h or 7d"],
    ["--subscription sub_1", "--subscription needs the --key"],
  ])("refuses %s", async (words, message) => {
    expect(await commandLine(() => ({}))(`stats --token t ${words}`)).toMatchObject(refused(64, message));
  });

  it("says that a token of one key may not see the whole relay", async () => {
    await using relay = await startRelay();
    const run = await operator(relay, { keys: ["key_1"] });
    expect(await run("stats")).toMatchObject({ code: 1, stdout: "" });
    expect((await run("stats --key key_1")).code).toBe(0);
  });
});

describe("relay replay", () => {
  let relay: TestRelay;
  let receiver: Receiver;
  let run: Run;
  beforeAll(async () => {
    receiver = await startReceiver({ otherwise: 500 });
    relay = await startRelay({ retry: ONCE, health: false });
    run = await operator(relay, { mfa: true });
  });
  afterAll(async () => {
    await relay[Symbol.asyncDispose]();
    await receiver[Symbol.asyncDispose]();
  });
  const publish = async (keyId: string, length: number): Promise<void> => {
    const events = Array.from({ length }, (_, n) => ({ type: "a:b", keyId, data: n }));
    expect((await relay.publish(events)).status).toBe(202);
    await failed(keyId, length);
  };
  const failed = (keyId: string, count: number) =>
    expect
      .poll(async () => (await run(`replay --key ${keyId} --dry-run`)).stdout)
      .toBe(`${count} deliveries would go out again\n`);

  let id: string;
  it("counts what failed, then sends it again, no more than asked for", async () => {
    id = await subscribe(relay, receiver.url());
    await publish("key_1", 7);
    const some = await run(`replay --key key_1 --subscription ${id} --limit 3 --json`);
    expect([some.code, JSON.parse(some.stdout)]).toMatchObject([0, { matched: 3, replayed: 3, more: true }]);
    await receiver.waitFor(10);
  });

  it("only counts when it is asked twice, or in so many words, to only count", async () => {
    await failed("key_1", 7);
    const counted = { code: 0, stdout: "7 deliveries would go out again\n", stderr: "" };
    expect(await run("replay --key key_1 --dry-run --json --json=false --dry-run")).toEqual(counted);
    expect(await run("replay --key key_1 --dry-run=true")).toEqual(counted);
    expect(receiver.requests.length).toBe(10);
  });

  it("keeps its pace, and needs no second run", async () => {
    receiver.answer([], 200);
    const all = await run("replay --key key_1 --per-second 500");
    expect(all).toMatchObject({ code: 0, stdout: "7 deliveries go out again\n" });
    await receiver.waitFor(17);
    const none = await run("replay --key key_1 --json");
    expect([none.code, JSON.parse(none.stdout)]).toEqual([0, { matched: 0, replayed: 0, more: false }]);
  });

  it.each([
    ["replay --force --key k", "--force is for one event"],
    ["replay evt_1 --key k --since 2026-01-01T00:00:00Z", "--since is for many"],
    ["replay evt_1 --key k --dry-run", "--dry-run is for many"],
    ["replay", "--key is missing"],
    ["replay --key k --limit 10001", "--limit must be"],
  ])("refuses %s", async (words, message) => {
    expect(await run(words)).toMatchObject(refused(64, message));
  });

  it("says 64 for a time that is none, with the field", async () => {
    expect(await run("replay --key key_1 --since yesterday")).toMatchObject(ends(64, "\n  since: "));
  });

  it("stands in the trail beside a rotation, which shows the new secret, and test events", async () => {
    const rotated = await run(`subscriptions rotate ${id} --key key_1 --overlap 60 --json`);
    expect(JSON.parse(rotated.stdout)).toMatchObject({ id, secret: expect.stringMatching(/^whsec_/) });
    const tested = await run(`subscriptions test ${id} --key key_1 --json`);
    expect([tested.code, JSON.parse(tested.stdout)]).toMatchObject([0, { statusCode: 200, number: 1 }]);
    receiver.answer([503]);
    expect((await run(`subscriptions test ${id} --key key_1`)).code).toBe(1);
    const trail = await run("audit --key key_1 --json --limit 3");
    const lines = JSON.parse(trail.stdout) as { action: string }[];
    expect(lines.map(({ action }) => action)).toEqual(["subscription.tested", "subscription.tested", "secret.rotated"]);
    expect(trail.stderr).toContain("there are more: --cursor ");
    const text = (await run("audit --key key_1")).stdout;
    expect(text.split("\n")[0]).toMatch(/^AT +BY +FROM +WHAT +OF +RESULT +DETAIL$/);
    expect(text + trail.stdout).not.toContain("whsec_");
    const secrets = await run(`audit --key key_1 --action secret --target ${id} --json`);
    expect(JSON.parse(secrets.stdout)).toMatchObject([{ action: "secret.rotated", target: id }]);
    const none = await run("audit --key key_1 --by nobody");
    expect(none.stderr).toContain("none of the entries looked at is such a one");
  });

  it("takes each of them once, also where they fail again while it goes on", { timeout: 60_000 }, async () => {
    receiver.answer([], 500);
    await run(`subscriptions create ${receiver.url()} --key key_2 --events *`);
    await publish("key_2", 12);
    const all = await run("replay --key key_2 --per-second 1 --limit 12");
    expect(all).toMatchObject({ code: 0, stdout: "12 deliveries go out again, over 12 s\n" });
    const listed = JSON.parse((await run("events list --key key_2 --json")).stdout) as { id: string }[];
    const cycles = await Promise.all(
      listed.map(async ({ id: event }) => {
        const shown = await run(`events show ${event} --key key_2 --json`);
        return (JSON.parse(shown.stdout) as { deliveries: { cycle: number }[] }).deliveries[0]?.cycle;
      }),
    );
    expect(cycles).toEqual(Array.from({ length: 12 }, () => 1));
  });
});
