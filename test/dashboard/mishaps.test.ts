// An operator with bad luck: refusals while a dialog is open, clicks that come twice.
import { describe, expect, it } from "vitest";
import { startRelay } from "../support/relay.ts";
import { setUp, useBrowser, type Screen } from "./browser.ts";

const browser = useBrowser();

/** Answers the first request of a method and path with 429, and lets the others through. */
async function refuseOnce({ page }: Screen, method: string, path: string, seconds: number): Promise<() => number> {
  let asked = 0;
  await page.route(
    (url) => url.pathname === path,
    async (route) => {
      if (route.request().method() !== method || asked++ > 0) return await route.continue();
      const json = { code: "RATE_LIMIT_EXCEEDED", detail: "Too many requests.", retryAfter: seconds };
      await route.fulfill({ status: 429, headers: { "retry-after": String(seconds) }, json });
    },
  );
  return () => asked;
}

describe.skipIf(browser.missing !== undefined)(`bad luck (${browser.missing ?? "in Chromium"})`, () => {
  it("a refusal is told in the dialog that waits for it, and a dialog that is closed meanwhile sends nothing more", async () => {
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await screen.go("k/key_1/events", "Events");
    const asked = await refuseOnce(screen, "POST", "/api-keys/key_1/events", 3);
    const publish = async (): Promise<void> => {
      await page.getByRole("button", { name: "Publish event…" }).click();
      await page.getByRole("dialog").getByLabel("Type", { exact: true }).fill("deposit:paid");
      await page.getByRole("dialog").getByLabel("Data", { exact: true }).fill("1");
      await page.getByRole("button", { name: "Publish", exact: true }).click();
    };
    await publish();
    await page
      .getByRole("dialog")
      .getByText(/It goes on by itself in \d s/)
      .waitFor({ timeout: 2_000 });
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.waitForTimeout(4_500);
    expect(asked()).toBe(1);
    expect((await relay.call("GET", "/api-keys/key_1/events")).json.data).toEqual([]);
    await publish();
    await page.getByText("Accepted. No subscription wants it.").waitFor();
  });

  it("the second click of a double click does nothing more, however soon the first is answered", async () => {
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await screen.go("k/key_1/events", "Events");
    await page.getByRole("button", { name: "Publish event…" }).click();
    await page.getByRole("dialog").getByLabel("Type", { exact: true }).fill("deposit:paid");
    await page.getByRole("dialog").getByLabel("Data", { exact: true }).fill("1");
    const button = page.getByRole("button", { name: "Publish", exact: true });
    /** The clicks of one double click, the second when the first has been answered. */
    await button.click();
    await page.getByText("Accepted. No subscription wants it.").waitFor();
    await button.hover();
    await page.mouse.down({ clickCount: 2 });
    await page.mouse.up({ clickCount: 2 });
    await page.waitForTimeout(1_000);
    const published = async () => (await relay.call("GET", "/api-keys/key_1/events")).json.data;
    expect(await published()).toHaveLength(1);
    await button.click();
    await expect.poll(published).toHaveLength(2);
  });
});
