// The two themes of the page: that of the system, unless somebody chose one.
import { describe, expect, it } from "vitest";
import { PALETTE } from "../../core/model/portal.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { expectAccessible, picture, useLoggedIn } from "./browser.ts";

let relay: TestRelay;
const browser = useLoggedIn(async (kept) => {
  relay = kept.use(await startRelay());
  return relay;
});

const rgb = (hex: string): string =>
  `rgb(${[1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)).join(", ")})`;

describe.skipIf(browser.missing !== undefined)(`the theme (${browser.missing ?? "in Chromium"})`, () => {
  it.each(["light", "dark"] as const)(
    "is that of a %s system, or the one that was chosen, charts too",
    async (scheme) => {
      await using screen = await browser.open({ width: 1280, scheme });
      const { page, complaints } = screen;
      await screen.go("k/key_1/overview", "Overview");
      const button = page.getByRole("button", { name: /^Theme/ });
      const ground = () => page.evaluate("getComputedStyle(document.documentElement).backgroundColor");
      /** The colours that are drawn in the first chart, apart from what is half transparent. */
      const drawn = () =>
        page.evaluate(`(() => {
        const canvas = document.querySelector(".plot canvas");
        if (canvas === null) return [];
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const found = new Set();
        for (let i = 0; i < data.length; i += 4)
          if (data[i + 3] === 255) found.add("rgb(" + [data[i], data[i + 1], data[i + 2]].join(", ") + ")");
        return [...found];
      })()`);
      const line = { light: rgb("#dfe3ea"), dark: rgb("#2b313d") };
      for (const [name, shown] of [
        ["auto", scheme],
        ["light", "light"],
        ["dark", "dark"],
      ] as const) {
        await page.getByRole("button", { name: `Theme: ${name}` }).waitFor();
        expect([name, await ground()]).toEqual([name, rgb(PALETTE[shown].page)]);
        await expect.poll(drawn, { timeout: 20_000 }).toContain(line[shown]);
        await expectAccessible(page);
        await picture(page, `theme-${name}-${scheme}`, false);
        await button.click();
      }
      expect(complaints).toEqual([]);
    },
  );
});
