// A page that is open for days: what it shows is what there is by then, and what is left goes on no more.
import { describe, expect, it } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { held, useLoggedIn } from "./browser.ts";

let relay: TestRelay;
let receiver: Receiver;
const browser = useLoggedIn(async (kept) => {
  receiver = kept.use(await startReceiver());
  relay = kept.use(await startRelay());
  return relay;
});
const { open } = browser;

async function subscribed(keyId: string, more: object = {}): Promise<string> {
  const body = { url: receiver.url("/"), events: ["*"], description: "The shop", ...more };
  const made = await relay.call("POST", `/api-keys/${keyId}/webhooks`, { body });
  expect(made.status, made.text).toBe(201);
  return made.json.data.id;
}
const publish = async (keyId: string, type = "deposit:paid"): Promise<string> =>
  (await relay.publish({ type, keyId, data: 1 })).json.data.id;

describe.skipIf(browser.missing !== undefined)(`a page that stays open (${browser.missing ?? "in Chromium"})`, () => {
  it("lists event types and API keys that are new", async () => {
    await publish("key_1", "first:seen");
    await using screen = await open();
    const { page } = screen;
    await page.clock.install();
    await screen.go("k/key_1/types", "Event types");
    await page.getByRole("link", { name: "first:seen" }).waitFor();
    const dialog = page.getByRole("dialog", { name: "Go to" });
    await page.keyboard.press("Control+k");
    await dialog
      .getByRole("option", { name: /API key/ })
      .first()
      .waitFor();
    await page.keyboard.press("Escape");
    await publish("key_1", "later:seen");
    await publish("key_later");
    await page.clock.fastForward(120_000);
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByRole("link", { name: "Event types" }).click();
    await page.getByRole("link", { name: "later:seen" }).waitFor();
    await page.keyboard.press("Control+k");
    await dialog.getByRole("combobox").fill("key_later");
    await dialog.getByRole("option", { name: "key_later API key", exact: true }).waitFor();
    expect(await dialog.getByText("not in use yet").count()).toBe(0);
  });

  it("lists deliveries that wait, before anything was tried", async () => {
    await using own = await startReceiver({ script: [500] });
    const more = { url: own.url("/"), ordered: true, onFailed: "hold", retry: { attempts: 1 } };
    const id = await subscribed("key_2", more);
    await publish("key_2");
    const held = async () => (await relay.call("GET", `/api-keys/key_2/webhooks/${id}/order`)).json.data.held;
    await expect.poll(held).toHaveLength(1);
    await using screen = await open();
    const { page } = screen;
    await screen.go(`k/key_2/subscriptions/${id}/deliveries`, "The shop");
    await page.getByText("live", { exact: true }).waitFor();
    await expect.poll(() => page.locator("tbody tr").count()).toBe(1);
    await publish("key_2");
    await page.getByText("waits for its turn").waitFor();
  });

  it("ends an export that is left", async () => {
    for (let i = 0; i < 3; i++) await publish("key_3");
    await using screen = await open();
    const { page } = screen;
    await screen.go("k/key_3/events", "Events");
    const files: string[] = [];
    page.on("download", (file) => files.push(file.suggestedFilename()));
    const late = await held(page, "GET", "/api-keys/key_3/events");
    await page.getByRole("button", { name: "Export as CSV" }).click();
    await late.answered;
    await screen.go("k/key_3/attempts", "Attempts");
    late.release();
    await page.waitForTimeout(1_000);
    expect(files).toEqual([]);
  });

  it("asks once for what a list of choices offers", async () => {
    await subscribed("key_4");
    await using screen = await open();
    const { page, limited } = screen;
    await screen.go("k/key_4/events", "Events");
    await page.getByText("live", { exact: true }).waitFor();
    const late = await held(page, "GET", "/api-keys/key_4/stats");
    const before = limited.length;
    await page.getByLabel("Subscription", { exact: true }).click();
    await late.answered;
    late.release();
    await page.getByRole("option", { name: "The shop" }).waitFor({ state: "attached" });
    expect(limited.slice(before)).toEqual(["GET /api-keys/key_4/stats"]);
    const keys = await held(page, "GET", "/api-keys");
    await page.getByLabel("API key", { exact: true }).click();
    await keys.answered;
    keys.release();
    await page.waitForTimeout(300);
    expect(limited.slice(before + 1)).toEqual(["GET /api-keys"]);
  });

  it("says that a chart cannot be drawn when the relay has another version by then", async () => {
    await using screen = await open();
    const { page, complaints } = screen;
    await page.route("**/developers/uPlot*", (route) => route.fulfill({ status: 404, body: "Not found" }));
    await screen.go("k/key_5/overview", "Overview");
    await page.getByText("This chart cannot be drawn: reload the page.").first().waitFor();
    expect(complaints).toEqual([]);
  });

  it("has the focus on the heading of a view, also once its content is there", async () => {
    const sub = await subscribed("key_6");
    const id = await publish("key_6");
    await using screen = await open();
    const { page } = screen;
    await screen.go("k/key_6/events", "Events");
    await page.getByRole("link", { name: id }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "deposit:paid" }).waitFor();
    const focused = (): Promise<unknown> => page.evaluate("document.activeElement.textContent");
    await expect.poll(focused).toBe("deposit:paid");
    await page.getByRole("link", { name: "Subscriptions", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Subscriptions" }).waitFor();
    await page.locator(`a[href*="${sub}"]`).first().focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "The shop" }).waitFor();
    await expect.poll(focused).toBe("The shop");
  });
});
