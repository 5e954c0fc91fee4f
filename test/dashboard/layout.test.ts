// The layout of the page: long names, a phone, and the two themes.
import { expect } from "vitest";
import { PALETTE } from "../../core/model/portal.ts";
import { expectAccessible } from "./browser.ts";
import { type Key, stage } from "./stage.ts";

const DESCRIPTION = "Tells the warehouse and the ledger about every payment that has come in, and then goes on and on";
let sub: string;

async function prepare({ relay, receiver, subscribe, publish }: Key): Promise<void> {
  const path = "/shop/orders/webhooks/incoming/of/the/warehouse/and/the/ledger";
  sub = (await subscribe(path, { events: ["deposit:*"], description: DESCRIPTION })).id;
  const off = await subscribe("/off", { description: "Off" });
  await relay.call("PATCH", `/api-keys/key_1/webhooks/${off.id}`, { body: { status: "disabled" } });
  for (const id of ["a".repeat(128), undefined]) await publish(undefined, { id });
  await receiver.waitFor(2);
}

stage("long names", { prepare }, (it) => {
  it("leave the actions of the overview on one line, and take two lines of a list", async ({ page, go }) => {
    await go("k/key_1/overview", "Overview");
    const link = page.getByRole("link", { name: DESCRIPTION });
    await link.waitFor();
    const tops = await page
      .locator(".page-head > .row > *")
      .evaluateAll((all) => [
        ...new Set(
          all.map((one) => Math.round((one.getBoundingClientRect().top + one.getBoundingClientRect().bottom) / 8)),
        ),
      ]);
    expect(tops).toHaveLength(1);
    expect((await link.boundingBox())?.height).toBeLessThan(60);
    await page.getByText("no attempts", { exact: true }).waitFor();
    // The figures beside the names of a chart's lines are there to be seen.
    for (const one of await page.locator(".legend b").all())
      expect((await one.boundingBox())?.width).toBeGreaterThan(4);
  });

  it("have ids on one line, and types and URLs that break between their parts only", async ({ page, go }) => {
    for (const [view, heading, region] of [
      ["attempts", "Attempts", "Attempts"],
      ["events", "Events", "Events"],
      [`subscriptions/${sub}/deliveries`, DESCRIPTION, "Deliveries"],
    ] as const) {
      await go(`k/key_1/${view}`, heading);
      const ids = page.locator("tbody a.id");
      await expect.poll(() => ids.count()).toBe(2);
      for (const one of await ids.all()) {
        expect((await one.boundingBox())?.height).toBeLessThan(30);
        // It is copied as one word.
        expect(await one.innerText()).toBe(await one.getAttribute("title"));
      }
      const table = page.getByRole("region", { name: region });
      expect(await table.evaluate((box) => box.scrollWidth - box.clientWidth)).toBeLessThanOrEqual(0);
      await expectAccessible(page);
    }
    await go(`k/key_1/subscriptions/${sub}`, DESCRIPTION);
    const lines = page.locator("dd .wrap").first();
    expect(await lines.evaluate((box) => box.querySelectorAll("wbr").length)).toBeGreaterThan(5);
  });
});

stage("the page on a phone", {}, (it) => {
  it("has a header of at most 120 px, with the link of the view that is shown in sight", async ({ open }) => {
    const { page, go, complaints } = await open({ width: 390, scheme: "light" });
    for (const [view, heading, link] of [
      ["k/key_1/overview", "Overview", "Overview"],
      ["account", "Account", "Account"],
    ] as const) {
      await go(view, heading);
      const header = await page.locator("header.top").boundingBox();
      expect(header?.height).toBeLessThanOrEqual(120);
      const box = await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: link }).boundingBox();
      expect(box?.x).toBeGreaterThanOrEqual(0);
      expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(390);
      await expectAccessible(page, `phone-${view.split("/").at(-1)}`, false);
    }
    expect(complaints).toEqual([]);
  });

  it("has forms that are no wider than it, however long the event names are", async ({ open, subscribe, keyId }) => {
    const { id } = await subscribe("/a", { events: ["*", "t".repeat(128)], description: "Long" });
    const { page, go } = await open({ width: 360, scheme: "light" });
    await go(`k/${keyId}/subscriptions/${id}`, "Long");
    await page.getByRole("button", { name: "Edit" }).click();
    const [content, shown] = await page
      .getByRole("dialog")
      .evaluate(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth] as const);
    expect(content).toBeLessThanOrEqual(shown);
  });
});

const rgb = (hex: string): string =>
  `rgb(${[1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)).join(", ")})`;

stage("the theme", {}, (it) => {
  for (const scheme of ["light", "dark"] as const)
    it(`is that of a ${scheme} system, or the one that was chosen, charts too`, async ({ open }) => {
      const { page, go, complaints } = await open({ width: 1280, scheme });
      await go("k/key_1/overview", "Overview");
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
        await expectAccessible(page, `theme-${name}-${scheme}`, false);
        await button.click();
      }
      expect(complaints).toEqual([]);
    });
});
