// Events and their deliveries: looked for, looked into, sent again, and seen as they happen.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";
import { expectAccessible, fill, held, picture, press } from "./browser.ts";
import { stage } from "./stage.ts";

const folder = testFolder();

/** Runs in the page: what comes on a stream while `held.on` is passed on in one piece. */
const holdStreams = `
  const parts = [];
  let pass;
  window.held = {
    on: false,
    text: () => parts.map((part) => new TextDecoder().decode(part)).join(""),
    release() {
      held.on = false;
      pass(new TextEncoder().encode(held.text()));
    },
  };
  const { fetch } = window;
  window.fetch = async (...asked) => {
    const answer = await fetch(...asked);
    if (!String(asked[0]).includes("/stream")) return answer;
    const gather = new TransformStream({
      transform(part, out) {
        pass = (whole) => out.enqueue(whole);
        if (held.on) parts.push(part);
        else out.enqueue(part);
      },
    });
    return new Response(answer.body.pipeThrough(gather), { status: answer.status, headers: answer.headers });
  };`;

stage("events", {}, (it) => {
  it("appear by themselves, and so do their attempts", async ({ page, go, relay, keyId, subscribe }) => {
    await subscribe("/live");
    await go(`k/${keyId}/events`, "Events");
    await page.getByRole("heading", { name: "No event yet" }).waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    const { id } = (await relay.publish({ type: "deposit:paid", keyId, data: 1 })).json.data;
    await page.getByRole("row", { name: new RegExp(`${id}.*deposit:paid.*delivered`) }).waitFor();
  });

  it("show what became of them when they and their attempts come at once", async (scene) => {
    const { page, go, keyId, subscribe, publish } = scene;
    await subscribe("/at-once");
    await page.addInitScript(holdStreams);
    await go(`k/${keyId}/events`, "Events");
    await page.getByText("live", { exact: true }).waitFor();
    await page.evaluate("held.on = true");
    const id = await publish("delivered");
    await expect.poll(() => page.evaluate<string>("held.text()")).toMatch(/event: event\n[^]*event: attempt\n/);
    await page.evaluate("held.release()");
    await page.getByRole("row", { name: new RegExp(`${id}.*deposit:paid.*delivered`) }).waitFor();
  });

  it("stay when they came while the list was on its way", async ({ page, go, keyId, publish }) => {
    const first = await publish("unmatched");
    const list = await held(page, "GET", `/api-keys/${keyId}/events`);
    await go(`k/${keyId}/events`, "Events");
    await page.getByText("live", { exact: true }).waitFor();
    await list.answered;
    const second = await publish("unmatched");
    await page.getByRole("link", { name: second }).waitFor();
    list.release();
    await page.getByRole("link", { name: first }).waitFor();
    expect(await page.locator("tbody tr").count()).toBe(2);
    await page.getByRole("link", { name: second }).waitFor();
  });

  it("have the status that they got while the list was on its way", async (scene) => {
    const { page, go, keyId, subscribe, publish, hasStatus } = scene;
    await using slow = await startReceiver({ otherwise: { do: "hang" } });
    await subscribe("/", { url: slow.url(), timeoutMs: 2_000, retry: { attempts: 1 } });
    const id = await publish("pending");
    const list = await held(page, "GET", `/api-keys/${keyId}/events`);
    await go(`k/${keyId}/events`, "Events");
    await page.getByText("live", { exact: true }).waitFor();
    await hasStatus(id, "failed");
    // The stream tells it as soon as the API does.
    await page.waitForTimeout(300);
    list.release();
    await page.getByRole("row", { name: /deposit:paid.*failed/ }).waitFor();
  });

  it("have the status that they got between the list and a stream that took long to open", async (scene) => {
    const { page, go, keyId, subscribe, publish, hasStatus } = scene;
    await using slow = await startReceiver({ otherwise: { do: "hang" } });
    await subscribe("/", { url: slow.url(), timeoutMs: 8_000, retry: { attempts: 1 } });
    const id = await publish("pending");
    const streaming = Promise.withResolvers<void>();
    await page.route(`**/api-keys/${keyId}/stream`, async (route) => {
      await streaming.promise;
      await route.continue();
    });
    await go(`k/${keyId}/events`, "Events");
    await page.getByRole("row", { name: /deposit:paid.*pending/ }).waitFor();
    await hasStatus(id, "failed");
    streaming.resolve();
    await page.getByRole("row", { name: /deposit:paid.*failed/ }).waitFor();
  });

  it("are filtered by status, type, time and subscription, page by page", async (scene) => {
    const { page, go, relay, receiver, keyId, subscribe, publish } = scene;
    receiver.answer(({ path }) => (path === "/mixed" ? 200 : 500));
    const { id: good } = await subscribe("/mixed", { events: ["deposit:*"] });
    const { id: bad } = await subscribe("/down", { events: ["withdraw:*"], retry: { attempts: 1 } });
    for (let i = 0; i < 30; i++) await relay.publish({ type: "deposit:paid", keyId, data: i });
    const failed = await publish("failed", { type: "withdraw:sent" });
    await relay.publish({ type: "other:thing", keyId, data: 1 });
    await go(`k/${keyId}/events`, "Events");
    const rows = page.locator("tbody tr");
    await expect.poll(() => rows.count()).toBe(25);
    await page.getByRole("button", { name: "Older" }).click();
    await expect.poll(() => rows.count()).toBe(7);
    await page.getByRole("button", { name: "Newest" }).click();
    await expect.poll(() => rows.count()).toBe(25);
    await picture(page, "events");
    await page.getByLabel("Status").selectOption("failed");
    await expect.poll(() => rows.count()).toBe(1);
    expect(await rows.innerText()).toContain(failed);
    await page.getByLabel("Status").selectOption("unmatched");
    await expect.poll(() => rows.innerText()).toContain("other:thing");
    await page.getByLabel("Status").selectOption("");
    await page.getByLabel("Type").focus();
    await page.getByLabel("Type").locator("option", { hasText: "withdraw:sent" }).waitFor({ state: "attached" });
    await page.getByLabel("Type").selectOption("withdraw:sent");
    await expect.poll(() => rows.count()).toBe(1);
    await page.getByLabel("Type").selectOption("");
    await page.getByLabel("Subscription").focus();
    await page.getByLabel("Subscription").locator(`option[value="${good}"]`).waitFor({ state: "attached" });
    await page.getByLabel("Subscription").selectOption(bad);
    await expect.poll(() => rows.count()).toBe(1);
    // The choice stands in the address, so that it can be kept and shared.
    expect(page.url()).toContain(`sub=${bad}`);
    await page.getByLabel("Subscription").selectOption("");
    await page.getByLabel("Time").selectOption("own");
    await page.getByLabel("From").fill("2020-01-01T00:00");
    await page.getByLabel("To", { exact: true }).fill("2020-01-02T00:00");
    await page.getByRole("heading", { name: "No event matches" }).waitFor();
    await page.getByRole("button", { name: "Show all" }).click();
    await expect.poll(() => rows.count()).toBe(25);
    await go(`k/${keyId}/subscriptions/${bad}/deliveries`, /./);
    await page.getByRole("button", { name: "Failed", exact: true }).click();
    await expect.poll(() => rows.count()).toBe(1);
    await expectAccessible(page, "deliveries");
  });

  it("are those of the same time for everybody who is given the address, wherever they are", async (scene) => {
    const { page, relay, keyId } = scene;
    const inZone = async (timezoneId: string) =>
      await (
        await page
          .context()
          .browser()!
          .newContext({ storageState: await page.context().storageState(), timezoneId })
      ).newPage();
    const [newYork, tokyo] = [await inZone("America/New_York"), await inZone("Asia/Tokyo")];
    const sinces: (string | null)[] = [];
    for (const page of [newYork, tokyo])
      page.on("request", (request) => {
        const { pathname, searchParams } = new URL(request.url());
        if (pathname === `/api-keys/${keyId}/events`) sinces.push(searchParams.get("since"));
      });
    await newYork.goto(`${relay.url}/developers#/k/${keyId}/events?time=own`);
    await newYork.getByLabel("From").fill("2026-11-20T10:00");
    await expect.poll(() => sinces.at(-1)).toBe("2026-11-20T15:00:00.000Z");
    expect(await newYork.getByLabel("From").inputValue()).toBe("2026-11-20T10:00");
    sinces.length = 0;
    await tokyo.goto(newYork.url());
    await expect.poll(() => sinces).toEqual(["2026-11-20T15:00:00.000Z"]);
    expect(await tokyo.getByLabel("From").inputValue()).toBe("2026-11-21T00:00");
    for (const page of [newYork, tokyo]) await page.context().close();
  });

  it("are searched by id, data and attempts, and what is found is written into a file", async (scene) => {
    const { page, go, complaints, relay, receiver, keyId, subscribe } = scene;
    receiver.answer(({ path }) => (path === "/sought" ? 200 : 500));
    await subscribe("/sought");
    for (let i = 0; i < 30; i++) await relay.publish({ type: "deposit:paid", keyId, id: `plain:${i}`, data: i });
    await relay.publish({ type: "deposit:paid", keyId, id: "sought:1", data: { customer: "ACME" } });
    await go(`k/${keyId}/events`, "Events");
    const rows = page.locator("tbody tr");
    await expect.poll(() => rows.count()).toBe(25);
    await page.getByText("Search by id, data or attempt").click();
    await fill(page, { "Data contains": "ACME" }, "Search");
    await expect.poll(() => rows.count()).toBe(1);
    expect(await rows.innerText()).toContain("sought:1");
    expect(page.url()).toContain("text=ACME");
    await page.getByLabel("Answered with").fill("500");
    await page.getByLabel("Answered with").press("Enter");
    await page.getByRole("heading", { name: "No event matches" }).waitFor();
    await page.getByRole("button", { name: "Show all" }).click();
    await expect.poll(() => rows.count()).toBe(25);
    await page.getByText("Search by id, data or attempt").click();
    await fill(page, { "Answered with": "nonsense" }, "Search");
    await page.getByText("must be 100 to 599").waitFor();
    await fill(page, { "Answered with": "200" }, "Search");
    await expect.poll(() => rows.count()).toBe(25);
    await expectAccessible(page, "search");
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export as CSV" }).click();
    const file = join(folder, "found.csv");
    await (await saved).saveAs(file);
    const text = readFileSync(file, "utf8").split("\r\n");
    expect(text).toHaveLength(33);
    expect(text.slice(0, 2)).toEqual([
      "id,type,status,createdAt,acceptedAt",
      expect.stringMatching(/^sought:1,deposit:paid,delivered,/),
    ]);
    expect(complaints.filter((one) => !one.includes("400"))).toEqual([]);
  });

  it("are searched further back by themselves, until there is a row, the end or Stop; a search says that letters count as they were published", async (scene) => {
    const { page, go, relay, keyId, subscribe } = scene;
    await subscribe("/further");
    await relay.publish({ type: "deposit:paid", keyId, data: { customer: "ACME" } });
    const asked: (string | null)[] = [];
    let last = 3;
    await page.route(
      (url) => url.pathname === `/api-keys/${keyId}/events`,
      async (route) => {
        // Pages that find nothing, one after another.
        const url = new URL(route.request().url());
        const cursor = url.searchParams.get("cursor");
        asked.push(cursor);
        url.searchParams.delete("cursor");
        const response = await route.fetch({ url: url.href });
        const answer = (await response.json()) as { readonly meta: object };
        const n = Number(cursor ?? 0) + 1;
        const more = n < last && { searchedTo: `2026-01-0${9 - (n % 9)}T00:00:00.000Z`, nextCursor: String(n) };
        await route.fulfill({ response, json: { data: [], meta: { ...answer.meta, ...more } } });
      },
    );
    await go(`k/${keyId}/events?text=acme`, "Events");
    await page.getByRole("heading", { name: "No event matches" }).waitFor();
    expect(asked).toEqual([null, "1", "2"]);
    last = Infinity;
    await page.getByRole("button", { name: "Newest" }).click();
    await page.getByText(/^Looking further back… Nothing found back to /).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText(/^Stopped\. Nothing found back to /).waitFor();
    await expectAccessible(page);
    const far = asked.length;
    last = far + 3;
    await page.getByRole("button", { name: "Go on" }).click();
    await page.getByRole("heading", { name: "No event matches" }).waitFor();
    await page.getByText("Upper and lower case count in data").waitFor();
  });

  it("are found again by a filter that was saved under a name", async (scene) => {
    const { page, go, receiver, keyId, subscribe, publish } = scene;
    receiver.answer(() => 200);
    await subscribe("/saved");
    const id = await publish("delivered");
    await go(`k/${keyId}/events`, "Events");
    const row = page.getByRole("link", { name: id });
    await row.waitFor();
    expect(await page.getByRole("button", { name: "Save this filter…" }).count()).toBe(0);
    await page.getByLabel("Status").selectOption("cancelled");
    await page.getByRole("heading", { name: "No event matches" }).waitFor();
    await press(page, "Save this filter…", "Save");
    await page.getByText("Give it a name.").waitFor();
    await page.getByLabel("Name").fill("Called off");
    await expectAccessible(page);
    await page.getByRole("button", { name: "Save", exact: true }).click();
    const chosen = page.getByLabel("Saved filters");
    await expect.poll(() => chosen.inputValue()).toBe("Called off");
    await chosen.selectOption("None");
    await row.waitFor();
    // It is there after a reload, and for another key.
    await go(`k/${keyId}_other/events`, "Events");
    await page.reload();
    await chosen.selectOption("Called off");
    await expect.poll(() => page.getByLabel("Status").inputValue()).toBe("cancelled");
    await page.getByRole("button", { name: "Remove “Called off”" }).click();
    await expect.poll(() => chosen.count()).toBe(0);
  });

  it("are found by filters that two tabs save, neither of which loses what the other has saved", async (scene) => {
    const { page, relay, keyId, subscribe } = scene;
    await subscribe("/tabs");
    const beside = await page.context().newPage();
    for (const one of [page, beside]) {
      await one.goto(`${relay.url}/developers#/k/${keyId}/events?status=failed`);
      await one.getByRole("button", { name: "Save this filter…" }).waitFor();
    }
    const save = async (one: typeof page, status: string, name: string): Promise<void> => {
      await one.getByLabel("Status").selectOption(status);
      await one.getByRole("button", { name: "Save this filter…" }).click();
      await one.getByLabel("Name").fill(name);
      await one.getByRole("button", { name: "Save", exact: true }).click();
      await expect.poll(() => one.getByLabel("Saved filters").inputValue()).toBe(name);
    };
    const offered = (one: typeof page): Promise<readonly string[]> =>
      one.getByLabel("Saved filters").locator("option").allTextContents();
    await save(page, "cancelled", "Of one tab");
    await save(beside, "pending", "Of the other");
    const both = ["None", "Of one tab", "Of the other"];
    // Each shows what the other has saved without a reload, and still after one.
    for (const one of [page, beside]) await expect.poll(() => offered(one)).toEqual(both);
    await page.reload();
    await expect.poll(() => offered(page)).toEqual(both);
    await beside.getByRole("button", { name: "Remove “Of the other”" }).click();
    await expect.poll(() => offered(page)).toEqual(["None", "Of one tab"]);
    await beside.evaluate("localStorage.clear()");
    await expect.poll(() => page.getByLabel("Saved filters").count()).toBe(0);
  });

  it("tell their story: each attempt, and when the next one comes", async (scene) => {
    const { page, go, receiver, keyId, subscribe, publish } = scene;
    receiver.answer([{ do: "reply", status: 503, body: "come back later", headers: { "retry-after": "120" } }], 200);
    await subscribe("/later", { description: "Slow one" });
    const id = await publish("pending");
    await receiver.waitFor(1);
    await go(`k/${keyId}/events/${id}`, "deposit:paid");
    await page.getByText("failed · 503").waitFor();
    await page.getByText("come back later").waitFor();
    const next = page.getByText(/next attempt in (1 min|2 min)/);
    await next.waitFor();
    const first = await next.innerText();
    await expect.poll(() => next.innerText(), { timeout: 60_000 }).not.toBe(first);
    await expectAccessible(page, "event-pending");
  });

  it("show the very bytes that were sent, and make the signatures again from a secret", async (scene) => {
    const { page, go, receiver, keyId, subscribe, publish } = scene;
    receiver.answer([], 200);
    const { secret } = await subscribe("/bytes", { headers: { "X-Own": "hidden from all" } });
    const before = receiver.requests.length;
    const data =
      '{"amount":1.0,"big":12345678901234567890,"a":1,"a":2,"text":"\\u00e9 é , } ] \\" ,\\"deliveries\\":[","n":[{"x":[]}]}';
    const id = await publish("delivered", { data });
    const got = receiver.requests[before]!;
    await go(`k/${keyId}/subscriptions`, "Subscriptions");
    await page.getByRole("link", { name: "Events" }).click();
    await page.getByRole("link", { name: id }).click();
    await page.getByRole("heading", { level: 1, name: "deposit:paid" }).waitFor();
    await page.getByText("What was sent").click();
    const request = page.getByLabel("The request", { exact: true });
    await expect.poll(() => request.textContent()).toContain(`Content-Digest: ${got.headers["content-digest"]}`);
    const shown = (await request.textContent()) as string;
    expect(shown.slice(shown.indexOf("\n\n") + 2)).toBe(got.body.toString());
    expect(shown.startsWith("POST /bytes HTTP/1.1\n")).toBe(true);
    await page.getByText("The signatures explained").click();
    await page.getByLabel("Make them again with your secret").fill(secret);
    await expect.poll(() => request.textContent()).toContain("webhook-signature: v1,");
    const signed = new Map(
      ((await request.textContent()) as string)
        .split("\n\n")[0]!
        .split("\n")
        .slice(1)
        .map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]),
    );
    for (const name of [
      "X-Relay-Webhook-Signature",
      "webhook-signature",
      "webhook-id",
      "webhook-timestamp",
      "User-Agent",
      "host",
      "content-length",
      "X-Relay-Attempt",
    ])
      expect([name, signed.get(name)]).toEqual([name, got.headers[name.toLowerCase()]]);
    const ours = [...signed.keys()].map((name) => name.toLowerCase()).sort();
    const theirs = Object.keys(got.headers)
      .filter((name) => name !== "connection")
      .sort();
    expect(ours).toEqual(theirs);
    expect(shown).not.toContain("hidden from all");
    await expectAccessible(page, "what-was-sent");
  });

  it("are replayed one by one", async ({ page, go, receiver, keyId, subscribe, publish }) => {
    receiver.answer(() => 500);
    await subscribe("/one", { description: "Broken" });
    const id = await publish("failed");
    await go(`k/${keyId}/events/${id}`, "deposit:paid");
    expect(await page.getByText(/^Attempt \d$/).count()).toBe(5);
    await picture(page, "event-failed");
    receiver.answer([], 200);
    await page.getByRole("button", { name: "Replay the failed delivery" }).click();
    await page.getByRole("heading", { name: "Replay 1" }).waitFor();
    await page.getByText("delivered · 200").waitFor();
    // The first cycle is an earlier one now: it is still there to be seen.
    await page.getByRole("button", { name: "Show the attempts before this replay" }).click();
    await page.getByRole("heading", { name: "At first" }).waitFor();
    expect(await page.getByRole("heading", { level: 3 }).allTextContents()).toEqual(["At first", "Replay 1"]);
    const before = receiver.requests.length;
    await page.getByRole("button", { name: "Replay", exact: true }).click();
    await page.getByRole("heading", { name: "Replay 2" }).waitFor();
    await receiver.waitFor(before + 1);
    await page.getByRole("button", { name: "Show the attempts before this replay" }).click();
    await page.getByRole("heading", { name: "Replay 1" }).waitFor();
    expect(await page.getByRole("heading", { level: 3 }).allTextContents()).toEqual([
      "At first",
      "Replay 1",
      "Replay 2",
    ]);
    expect(receiver.requests[before]?.headers["x-relay-replay"]).toBe("2");
  });

  it("can be sent to a subscription that came later", async (scene) => {
    const { page, go, receiver, keyId, subscribe, publish } = scene;
    receiver.answer([], 200);
    await subscribe("/first", { description: "First" });
    const id = await publish("delivered");
    await subscribe("/later", { description: "Later" });
    await go(`k/${keyId}/subscriptions`, "Subscriptions");
    await go(`k/${keyId}/events/${id}`, "deposit:paid");
    const before = receiver.requests.length;
    await page.getByRole("combobox", { name: "Subscription" }).selectOption({ label: "Later" });
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.getByRole("heading", { name: "To Later" }).waitFor();
    await receiver.waitFor(before + 1);
    expect(receiver.requests[before]?.path).toBe("/later");
  });

  it("that nobody wanted can be sent, and to a subscription of their own key alone", async (scene) => {
    const { page, go, receiver, keyId, subscribe, publish } = scene;
    receiver.answer([], 200);
    await subscribe("/other-key", { description: "Of another key" }, "key_other");
    const id = await publish("unmatched");
    await subscribe("/late", { description: "Late" });
    await go(`k/key_other/subscriptions`, "Subscriptions");
    await page.getByText("Of another key").waitFor();
    await go(`k/${keyId}/events`, "Events");
    await page.getByRole("link", { name: id }).waitFor();
    const choice = page.getByRole("combobox", { name: "Subscription" });
    const offered = () => choice.getByRole("option").allTextContents();
    await choice.focus();
    await expect.poll(offered).toEqual(["Any subscription", "Late"]);
    await go(`k/${keyId}/events/${id}`, "deposit:paid");
    await expect.poll(offered).toEqual(["Choose…", "Late"]);
    await page.reload();
    await expect.poll(offered).toEqual(["Choose…", "Late"]);
    const before = receiver.requests.length;
    await choice.selectOption({ label: "Late" });
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await receiver.waitFor(before + 1);
    expect(receiver.requests[before]?.path).toBe("/late");
  });

  it("are not said to match by a verdict on another subscription", async (scene) => {
    const { page, go, receiver, keyId, subscribe, publish } = scene;
    receiver.answer([], 200);
    await subscribe("/had", { description: "Had it" });
    const id = await publish("delivered");
    await subscribe("/deposits", { events: ["deposit:*"], description: "Matches" });
    await subscribe("/withdrawals", { events: ["withdraw:*"], description: "Does not" });
    await go(`k/${keyId}/events/${id}`, "deposit:paid");
    const verdict = await held(page, "POST", /\/filter\/test$/);
    const choice = page.getByRole("combobox", { name: "Subscription" });
    await choice.selectOption({ label: "Matches" });
    await page.getByRole("button", { name: "Does it match now?" }).click();
    await verdict.answered;
    await choice.selectOption({ label: "Does not" });
    const answered = page.waitForResponse("**/filter/test");
    verdict.release();
    await (await answered).finished();
    await expect.poll(() => page.getByRole("button", { name: "Does it match now?" }).isEnabled()).toBe(true);
    expect(await page.getByText("Matches. ").count()).toBe(0);
    await page.getByRole("button", { name: "Does it match now?" }).click();
    await page.getByText("Does not match. ").waitFor();
  });

  it("are replayed all at once, counted first, with the progress shown", async (scene) => {
    const { page, go, receiver, keyId, subscribe, publish } = scene;
    receiver.answer(() => 500);
    await subscribe("/all", { retry: { attempts: 1 } });
    for (let i = 0; i < 12; i++) await publish("failed");
    receiver.answer([], 200);
    await go(`k/${keyId}/events`, "Events");
    await page.getByText("live", { exact: true }).waitFor();
    await press(page, "Replay failed…", "Count them first");
    await page.getByText("12 deliveries will be replayed").waitFor();
    const before = receiver.requests.length;
    await expectAccessible(page, "replay-count", false);
    await page.getByRole("button", { name: "Replay 12" }).click();
    await page.getByText("12 of 12 tried, 12 delivered").waitFor();
    expect(receiver.requests.length).toBe(before + 12);
    await expectAccessible(page, "replay-progress", false);
    await page.getByRole("button", { name: "Close" }).last().click();
    await press(page, "Replay failed…", "Count them first");
    await page.getByText("Nothing failed in that time").waitFor();
  });

  it("are not replayed by a count of another time than the one that is shown", async (scene) => {
    const { page, go, receiver, keyId, subscribe, publish } = scene;
    receiver.answer(() => 500);
    await subscribe("/other", {
      retry: { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 },
    });
    await publish("failed");
    await go(`k/${keyId}/events`, "Events");
    const answering = Promise.withResolvers<void>();
    const asked: { readonly since?: string; readonly dryRun: boolean }[] = [];
    await page.route(`**/api-keys/${keyId}/replay`, async (route) => {
      asked.push(route.request().postDataJSON() as (typeof asked)[number]);
      if (asked.length === 1) await answering.promise;
      await route.continue();
    });
    await page.getByRole("button", { name: "Replay failed…" }).click();
    await page.getByLabel("Events accepted in").selectOption("all that is kept");
    await page.getByRole("button", { name: "Count them first" }).click();
    await expect.poll(() => asked.length).toBe(1);
    await page.getByLabel("Events accepted in").selectOption("the last hour");
    answering.resolve();
    await press(page, "Count them first", "Replay 1");
    await page.getByRole("dialog", { name: "Replaying" }).waitFor();
    const hour = expect.any(String) as string;
    expect(asked).toMatchObject([{ dryRun: true }, { dryRun: true, since: hour }, { dryRun: false, since: hour }]);
  });

  it("are erased by a button that asks first, and are gone from the list", async (scene) => {
    const { page, go, relay, receiver, keyId, subscribe, publish } = scene;
    receiver.answer([], 200);
    await subscribe("/erased");
    const id = await publish("delivered");
    await go(`k/${keyId}/events/${id}`, "deposit:paid");
    await page.getByRole("button", { name: "Erase…" }).click();
    await page.getByText("those that are pending too").waitFor();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Keep it" }).click();
    expect((await relay.call("GET", `/api-keys/${keyId}/events/${id}`)).status).toBe(200);
    await press(page, "Erase…", "Erase for ever");
    await page.getByText("The event is erased").waitFor();
    await page.getByRole("heading", { name: "No event yet" }).waitFor();
    expect((await relay.call("GET", `/api-keys/${keyId}/events/${id}`)).status).toBe(404);
    await go(`k/${keyId}/audit`, "Audit");
    await page.getByRole("row", { name: new RegExp(`Event erased.*${id}`) }).waitFor();
  });

  it("go with their key, which is erased on its audit page once its name is typed", async (scene) => {
    const { page, go, relay, receiver, keyId, subscribe, publish } = scene;
    receiver.answer([], 200);
    await subscribe("/erased-key");
    const id = await publish("delivered");
    await go(`k/${keyId}/audit`, "Audit");
    await page.getByRole("button", { name: "Erase the key…" }).click();
    await expectAccessible(page);
    expect(await page.getByRole("button", { name: "Erase for ever" }).isDisabled()).toBe(true);
    await page.getByLabel(`Type ${keyId} to confirm`).fill(keyId);
    await page.getByRole("button", { name: "Keep it" }).click();
    expect((await relay.call("GET", `/api-keys/${keyId}/events/${id}`)).status).toBe(200);
  });

  it("are read again by a button once the relay can be reached", async (scene) => {
    const { page, go, receiver, keyId, subscribe, publish } = scene;
    receiver.answer([], 200);
    await subscribe("/away");
    const id = await publish("delivered");
    const lists = (url: URL): boolean => url.pathname === `/api-keys/${keyId}/events`;
    await page.route(lists, (route) => route.abort());
    // Without a stream the page does not find out by itself.
    await page.route(`**/api-keys/${keyId}/stream`, (route) => route.abort());
    await go(`k/${keyId}/events`, "Events");
    await page.getByText("The relay cannot be reached.").waitFor();
    await page.unroute(lists);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("row", { name: new RegExp(id) }).waitFor();
  });

  it("leave their figures on the overview, and changes theirs on the audit", async (scene) => {
    const { page, go, relay, receiver, keyId, subscribe, publish } = scene;
    receiver.answer([], 200);
    const { id: sub } = await subscribe("/figures", { description: "Counted" });
    for (let i = 0; i < 3; i++) await publish("delivered");
    await go(`k/${keyId}/overview`, "Overview");
    await page.getByText("Events accepted3").waitFor();
    await page.getByText("Delivered3").waitFor();
    await expect.poll(() => page.locator(".plot canvas").count()).toBe(4);
    await page.getByText("As a table: Events and deliveries").click();
    await page
      .getByRole("region", { name: "Events and deliveries, as a table" })
      .getByRole("cell", { name: "3" })
      .first()
      .waitFor();
    // A step of a chart leads to its events, by its row as by a click on it.
    await page.getByRole("region", { name: "Events and deliveries, as a table" }).getByRole("link").last().click();
    await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
    await expect.poll(() => page.locator("tbody tr").count()).toBeGreaterThan(0);
    expect(await page.getByLabel("Time").inputValue()).toBe("own");
    await picture(page, "events-of-a-step");
    await expectAccessible(page);
    await page.goBack();
    await page.locator(".u-over").first().click();
    await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await page.getByRole("button", { name: "7 days" }).click();
    await expect.poll(() => page.url()).toContain("range=7d");
    await page.getByText("Events accepted3").waitFor();
    await relay.publish({ type: "deposit:paid", keyId, data: 1 });
    await page.getByText("Events accepted4").waitFor();
    // Requests are refused to a key: there is no such chart of one subscription.
    const refused = page.getByRole("heading", { name: "Refused requests" });
    await refused.waitFor();
    await page.evaluate(`location.hash += "&sub=${sub}"`);
    await refused.waitFor({ state: "detached" });
    await page.getByText("Events accepted4").waitFor();
    await go(`k/${keyId}/audit`, "Audit");
    await page.getByRole("row", { name: /Subscription created/ }).waitFor();
    await page.getByLabel("What").selectOption("Secrets");
    await page.getByText("Nothing of this kind").waitFor();
    expect(page.url()).toContain("action=secret");
    await page.getByLabel("What").selectOption("Subscriptions");
    await page.getByRole("row", { name: /Subscription created/ }).waitFor();
    await expectAccessible(page, "audit-filtered");
    await go("relay", "The relay");
    await page.getByText("sqlite").waitFor();
    await expectAccessible(page, "relay");
  });
});
