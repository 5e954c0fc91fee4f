// The edit form of a subscription, while somebody else changes the same subscription.
import { describe, expect, it } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { expectAccessible, useLoggedIn, type Screen } from "./browser.ts";

let relay: TestRelay;
let receiver: Receiver;
const browser = useLoggedIn(async (kept) => {
  receiver = kept.use(await startReceiver());
  relay = kept.use(await startRelay());
  return relay;
});

let keys = 0;
async function subscribe(more: object) {
  const keyId = `key_${++keys}`;
  const body = { url: receiver.url("/edited"), events: ["*"], ...more };
  const made = await relay.call("POST", `/api-keys/${keyId}/webhooks`, { body });
  expect(made.status, made.text).toBe(201);
  const route = `/api-keys/${keyId}/webhooks/${made.json.data.id}`;
  return {
    view: `k/${keyId}/subscriptions/${made.json.data.id}`,
    stored: async () => (await relay.call("GET", route)).json.data,
    change: async (patch: object) => {
      const answer = await relay.call("PATCH", route, { body: patch });
      expect(answer.status, answer.text).toBe(200);
    },
  };
}
async function edit(view: string): Promise<Screen> {
  const screen = await browser.open();
  await screen.go(view, "Shared");
  await screen.page.getByRole("button", { name: "Edit" }).click();
  await screen.page.getByRole("dialog").waitFor();
  return screen;
}

describe.skipIf(browser.missing !== undefined)(`the edit form (${browser.missing ?? "in Chromium"})`, () => {
  it("sends only what was changed in it, so that what others change meanwhile stays", async () => {
    const headers = { "X-Kept": "kept", "X-Removed": "removed", "X-Gone": "gone" };
    const { view, stored, change } = await subscribe({ description: "Shared", timeoutMs: 5_000, headers });
    await using screen = await edit(view);
    const { page } = screen;
    const sent: unknown[] = [];
    page.on("request", (request) => {
      if (request.method() === "PATCH") sent.push(request.postDataJSON());
    });
    const retry = { attempts: 2, firstDelayMs: 100, factor: 2, maxDelayMs: 1_000 };
    await change({
      events: ["deposit:paid"],
      filter: { path: "data.a", equals: 1 },
      rateLimit: { perSecond: 7 },
      timeoutMs: null,
      retry,
      ordered: true,
      onFailed: "hold",
      headers: { "X-Kept": null, "X-Removed": null, "X-Theirs": "theirs" },
    });
    await page.getByLabel("Description").fill("Mine");
    await page.getByRole("button", { name: "Remove header 2" }).click();
    await page.getByRole("button", { name: "Add a header" }).click();
    await page.getByLabel("Name of header 3").fill("X-Mine");
    await page.getByLabel("Value of header 3").fill("mine");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { level: 1, name: "Mine" }).waitFor();
    const now = await stored();
    expect(now).toMatchObject({
      description: "Mine",
      events: ["deposit:paid"],
      filter: { path: "data.a", equals: 1 },
      rateLimit: { perSecond: 7 },
      retry,
      ordered: true,
      onFailed: "hold",
    });
    expect(now.timeoutMs).toBeUndefined();
    expect(now.headers).toEqual({ "X-Kept": null, "X-Theirs": null, "X-Mine": null });
    expect(sent).toEqual([{ description: "Mine", headers: { "X-Kept": null, "X-Theirs": null, "X-Mine": "mine" } }]);
  });

  it("says what is stored now when somebody else has changed the same field, and replaces it only when asked again", async () => {
    const { view, stored, change } = await subscribe({ description: "Shared", timeoutMs: 5_000 });
    await using screen = await edit(view);
    const { page } = screen;
    await page.getByLabel("Description").fill("Mine");
    await page.getByLabel("Time-out in seconds").fill("");
    await change({ description: "<b>Theirs</b>", timeoutMs: 9_000 });
    await page.getByRole("button", { name: "Save" }).click();
    const told = page.getByRole("dialog").getByRole("alert");
    await told.getByText("Somebody else has changed this meanwhile").waitFor();
    await told.getByText("<b>Theirs</b>").waitFor();
    await told.getByText("is now 9 s").waitFor();
    await expectAccessible(page);
    expect(await stored()).toMatchObject({ description: "<b>Theirs</b>", timeoutMs: 9_000 });
    expect(await page.getByLabel("Description").inputValue()).toBe("Mine");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { level: 1, name: "Mine" }).waitFor();
    const now = await stored();
    expect(now.description).toBe("Mine");
    expect(now.timeoutMs).toBeUndefined();
  });

  it("sends nothing when nothing was changed", async () => {
    const retry = { delaysMs: [1_000, 2_000] };
    const order = { ordered: true, orderBy: ["data", "a"], filter: { path: "data.a", equals: 1 } };
    const { view, stored } = await subscribe({ description: "Shared", retry, ...order, headers: { "X-A": "a" } });
    const before = await stored();
    await using screen = await edit(view);
    const { page, limited } = screen;
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(limited.filter((one) => one.startsWith("PATCH"))).toEqual([]);
    expect(await stored()).toEqual(before);
  });
});
