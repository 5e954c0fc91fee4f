// Long names: they are cut or wrapped between words, and push nothing out of its place.
import { describe, expect, it } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { expectAccessible, useLoggedIn } from "./browser.ts";

const DESCRIPTION = "Tells the warehouse and the ledger about every payment that has come in, and then goes on and on";
let relay: TestRelay;
let receiver: Receiver;
let sub: string;
const browser = useLoggedIn(async (kept) => {
  receiver = kept.use(await startReceiver());
  relay = kept.use(await startRelay());
  const subscribe = async (path: string, description: string): Promise<string> => {
    const body = { url: receiver.url(path), events: ["deposit:*"], description };
    return (await relay.call("POST", "/api-keys/key_1/webhooks", { body })).json.data.id;
  };
  sub = await subscribe("/shop/orders/webhooks/incoming/of/the/warehouse/and/the/ledger", DESCRIPTION);
  const off = await subscribe("/off", "Off");
  await relay.call("PATCH", `/api-keys/key_1/webhooks/${off}`, { body: { status: "disabled" } });
  for (const id of ["a".repeat(128), undefined])
    await relay.publish({ type: "deposit:paid", keyId: "key_1", id, data: 1 });
  await receiver.waitFor(2);
  return relay;
});
const { open } = browser;

describe.skipIf(browser.missing !== undefined)(`long names (${browser.missing ?? "in Chromium"})`, () => {
  it("leave the actions of the overview on one line, and take two lines of a list", async () => {
    await using screen = await open();
    const { page } = screen;
    await screen.go("k/key_1/overview", "Overview");
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

  it("have ids on one line, and types and URLs that break between their parts only", async () => {
    await using screen = await open();
    const { page } = screen;
    for (const [view, heading, region] of [
      ["attempts", "Attempts", "Attempts"],
      ["events", "Events", "Events"],
      [`subscriptions/${sub}/deliveries`, DESCRIPTION, "Deliveries"],
    ] as const) {
      await screen.go(`k/key_1/${view}`, heading);
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
    await screen.go(`k/key_1/subscriptions/${sub}`, DESCRIPTION);
    const lines = page.locator("dd .wrap").first();
    expect(await lines.evaluate((box) => box.querySelectorAll("wbr").length)).toBeGreaterThan(5);
  });

  it("a question for the second factor goes when somebody goes elsewhere", async () => {
    await using screen = await open();
    const { page } = screen;
    await screen.go("account", "Account");
    await page.getByRole("link", { name: "Users" }).click();
    await page.getByRole("dialog", { name: "A second factor is needed" }).waitFor();
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();
    await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
  });
});
