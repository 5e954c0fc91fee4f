// The page on a phone: how much of it the header takes.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { expectAccessible, logIn, picture, setUp, useBrowser } from "./browser.ts";

const browser = useBrowser();
let relay: TestRelay;
beforeAll(async () => {
  if (browser.missing !== undefined) return;
  relay = await startRelay();
});
afterAll(() => relay?.[Symbol.asyncDispose]());

describe.skipIf(browser.missing !== undefined)(`the page on a phone (${browser.missing ?? "in Chromium"})`, () => {
  it("has a header of at most 120 px, with the link of the view that is shown in sight", async () => {
    await using screen = await browser.open(relay, { width: 390, scheme: "light" });
    const { page, complaints } = screen;
    await setUp(relay, screen);
    for (const [view, heading, link] of [
      ["k/key_1/overview", "Overview", "Overview"],
      ["account", "Account", "Account"],
    ] as const) {
      await screen.go(view, heading);
      const header = await page.locator("header.top").boundingBox();
      expect(header?.height).toBeLessThanOrEqual(120);
      const box = await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: link }).boundingBox();
      expect(box?.x).toBeGreaterThanOrEqual(0);
      expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(390);
      await expectAccessible(page);
      await picture(page, `phone-${view.split("/").at(-1)}`, false);
    }
    expect(complaints).toEqual([]);
  });

  it("has forms that are no wider than it, however long the event names are", async () => {
    const body = { url: "https://127.0.0.1:9/a", events: ["*", "t".repeat(128)], description: "Long" };
    const made = await relay.call("POST", "/api-keys/key_1/webhooks", { body });
    await using screen = await browser.open(relay, { width: 360, scheme: "light" });
    await logIn(relay, screen);
    await screen.go(`k/key_1/subscriptions/${made.json.data.id}`, "Long");
    await screen.page.getByRole("button", { name: "Edit" }).click();
    const [content, shown] = await screen.page
      .getByRole("dialog")
      .evaluate(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth] as const);
    expect(content).toBeLessThanOrEqual(shown);
  });
});
