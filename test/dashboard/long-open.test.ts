// A page that is open for days, or on a key on which something happens all the time.
import { expect } from "vitest";
import { startReceiver } from "../support/receiver.ts";
import { held } from "./browser.ts";
import { type Scene, stage } from "./stage.ts";
import { setTimeout as pause } from "node:timers/promises";

stage("a page that stays open", {}, (it) => {
  it("lists event types and API keys that are new", async ({ page, go, keyId, publish }) => {
    await publish(undefined, { type: "first:seen" });
    await page.clock.install();
    await go(`k/${keyId}/types`, "Event types");
    await page.getByRole("link", { name: "first:seen" }).waitFor();
    const dialog = page.getByRole("dialog", { name: "Go to" });
    await page.keyboard.press("Control+k");
    await dialog
      .getByRole("option", { name: /API key/ })
      .first()
      .waitFor();
    await page.keyboard.press("Escape");
    await publish(undefined, { type: "later:seen" });
    await publish(undefined, { keyId: "key_later" });
    await page.clock.fastForward(120_000);
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByRole("link", { name: "Event types" }).click();
    await page.getByRole("link", { name: "later:seen" }).waitFor();
    await page.keyboard.press("Control+k");
    await dialog.getByRole("combobox").fill("key_later");
    await dialog.getByRole("option", { name: "key_later API key", exact: true }).waitFor();
    expect(await dialog.getByText("not in use yet").count()).toBe(0);
  });

  it("lists deliveries that wait, before anything was tried", async (scene) => {
    const { page, go, relay, keyId, subscribe, publish } = scene;
    await using own = await startReceiver({ script: [500] });
    const more = { url: own.url("/"), ordered: true, onFailed: "hold", retry: { attempts: 1 } };
    const { id } = await subscribe("/", { description: "The shop", ...more });
    await publish();
    const held = async () => (await relay.call("GET", `/api-keys/${keyId}/webhooks/${id}/order`)).json.data.held;
    await expect.poll(held).toHaveLength(1);
    await go(`k/${keyId}/subscriptions/${id}/deliveries`, "The shop");
    await page.getByText("live", { exact: true }).waitFor();
    await expect.poll(() => page.locator("tbody tr").count()).toBe(1);
    await publish();
    await page.getByText("waits for its turn").waitFor();
  });

  it("ends an export that is left", async ({ page, go, keyId, publish }) => {
    for (let i = 0; i < 3; i++) await publish();
    await go(`k/${keyId}/events`, "Events");
    const files: string[] = [];
    page.on("download", (file) => files.push(file.suggestedFilename()));
    const late = await held(page, "GET", `/api-keys/${keyId}/events`);
    await page.getByRole("button", { name: "Export as CSV" }).click();
    await late.answered;
    await go(`k/${keyId}/attempts`, "Attempts");
    late.release();
    await page.waitForTimeout(1_000);
    expect(files).toEqual([]);
  });

  it("asks once for what a list of choices offers", async ({ page, go, limited, keyId, subscribe }) => {
    await subscribe("/", { description: "The shop" });
    await go(`k/${keyId}/events`, "Events");
    await page.getByText("live", { exact: true }).waitFor();
    const late = await held(page, "GET", `/api-keys/${keyId}/stats`);
    const before = limited.length;
    await page.getByLabel("Subscription", { exact: true }).click();
    await late.answered;
    late.release();
    await page.getByRole("option", { name: "The shop" }).waitFor({ state: "attached" });
    expect(limited.slice(before)).toEqual([`GET /api-keys/${keyId}/stats`]);
    const keys = await held(page, "GET", "/api-keys");
    await page.getByLabel("API key", { exact: true }).click();
    await keys.answered;
    keys.release();
    await page.waitForTimeout(300);
    expect(limited.slice(before + 1)).toEqual(["GET /api-keys"]);
  });

  it("says that a chart cannot be drawn when the relay has another version by then", async ({ page, go, keyId }) => {
    await page.route("**/developers/uPlot*", (route) => route.fulfill({ status: 404, body: "Not found" }));
    await go(`k/${keyId}/overview`, "Overview");
    await page.getByText("This chart cannot be drawn: reload the page.").first().waitFor();
  });

  it("has the focus on the heading of a view, also once its content is there", async (scene) => {
    const { page, go, keyId, subscribe, publish } = scene;
    const { id: sub } = await subscribe("/", { description: "The shop" });
    const id = await publish();
    await go(`k/${keyId}/events`, "Events");
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

/** An event whose deliveries are tried again and again while `during` runs: the stream tells of each attempt. */
async function whileTried({ relay, keyId, subscribe, publish }: Scene, during: (id: string) => Promise<void>) {
  await subscribe();
  const id = await publish();
  let over = false;
  const trying = (async () => {
    for (; !over; await pause(300))
      await relay.call("POST", `/api-keys/${keyId}/events/${id}/replay`, { body: { force: true } });
  })();
  try {
    await during(id);
  } finally {
    over = true;
    await trying;
  }
}

stage("a busy key", {}, (it) => {
  it("is shown, however long an answer takes", async (scene) =>
    whileTried(scene, async (id) => {
      const { page, relay, keyId } = scene;
      let answers = 0;
      await page.route(`**/api-keys/${keyId}/events/${id}`, async (route) => {
        const response = await route.fetch();
        await pause(3_000);
        // The page may have given it up.
        await route.fulfill({ response }).catch(() => undefined);
        answers++;
      });
      await page.goto(`${relay.url}/developers#/k/${keyId}/events/${id}`);
      await page.getByText("live", { exact: true }).waitFor();
      await page.getByRole("heading", { level: 1, name: "deposit:paid" }).waitFor();
      // It reads as well what came meanwhile.
      await expect.poll(() => answers).toBeGreaterThan(1);
    }));

  it("is asked for no sooner than the relay has said, whatever happens meanwhile", async (scene) =>
    whileTried(scene, async (id) => {
      const { page, relay, keyId } = scene;
      const at: number[] = [];
      await page.route(`**/api-keys/${keyId}/events/${id}`, async (route) => {
        at.push(Date.now());
        const json = { code: "BURST_EXCEEDED", detail: "Too many requests." };
        if (at.length === 1) await route.fulfill({ status: 429, headers: { "retry-after": "5" }, json });
        else await route.continue();
      });
      await page.goto(`${relay.url}/developers#/k/${keyId}/events/${id}`);
      await page.getByRole("heading", { level: 1, name: "deposit:paid" }).waitFor();
      const [first = 0, second = 0] = at;
      expect(second - first).toBeGreaterThanOrEqual(4_900);
    }));
});
