// The page on a phone: how much of it the header takes.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { expectAccessible, picture, setUp, useBrowser } from "./browser.ts";

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
});
