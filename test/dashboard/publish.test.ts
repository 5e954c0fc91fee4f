// An event that is published by hand: types and examples are offered, mistakes are told, and the event is one click away.
import { expect } from "vitest";
import { startRelay } from "../support/relay.ts";
import { expectAccessible, fill, picture } from "./browser.ts";
import { type Key, stage } from "./stage.ts";

const schema = { type: "object", required: ["amount"], properties: { amount: { type: "string" } } };
const events = {
  "deposit:paid": { schema, description: "Money has come in.", example: { amount: "12.50" } },
  "withdraw:sent": {},
};

const start = () => startRelay({ events, validate: "refuse" });
const prepare = async ({ subscribe }: Key): Promise<unknown> =>
  subscribe("/hand", { events: ["deposit:*"], description: "Books" });

stage("publishing by hand", { start, prepare }, (it) => {
  it("offers types and their examples, and leads to the event", async ({ page, go, receiver }) => {
    await go("k/key_1/events", "Events");
    await page.getByRole("button", { name: "Publish event…" }).click();
    const dialog = page.getByRole("dialog", { name: "Publish event" });
    await expect.poll(() => dialog.locator("datalist option").count()).toBe(2);
    await dialog.getByLabel("Type").fill("deposit:paid");
    await dialog.getByText("Money has come in.").waitFor();
    await dialog.getByRole("button", { name: "Use the example" }).click();
    expect(await dialog.getByLabel("Data").inputValue()).toBe('{\n  "amount": "12.50"\n}');
    await dialog.getByLabel("Event id").fill("by-hand:1");
    await expectAccessible(page);
    await dialog.getByRole("button", { name: "Publish", exact: true }).click();
    await dialog.getByText("Accepted. It goes to one subscription.").waitFor();
    await picture(page, "publish", false);
    await dialog.getByRole("button", { name: "Publish", exact: true }).click();
    await dialog.getByText("nothing is sent again").waitFor();
    await dialog.getByRole("link", { name: "by-hand:1" }).click();
    await page.getByRole("heading", { level: 1, name: "deposit:paid" }).waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.getByText("delivered · 200").waitFor();
    await receiver.waitFor(1);
    await go("k/key_1/audit", "Audit");
    await page.getByRole("row", { name: /Event published.*by-hand:1/ }).waitFor();
  });

  it("sends the data as it is typed, and tells what is wrong in the relay's words", async ({ page, go, relay }) => {
    await go("k/key_1/overview", "Overview");
    await page.getByRole("button", { name: "Publish event…" }).click();
    const dialog = page.getByRole("dialog", { name: "Publish event" });
    const send = dialog.getByRole("button", { name: "Publish", exact: true });
    await fill(dialog, { Type: "deposit:paid", Data: '{"amount": ' });
    await send.click();
    await dialog.getByText("The data is not JSON").waitFor();
    await dialog.getByLabel("Data").fill('{"amount": 5}');
    await send.click();
    await dialog.getByRole("listitem").getByText("data.amount").waitFor();
    await dialog.getByLabel("Event id").fill("no id");
    await send.click();
    await dialog.getByRole("listitem").getByText("must be 1 to 128 characters").waitFor();
    await expectAccessible(page);
    await dialog.getByLabel("Event id").fill("by-hand:2");
    await fill(dialog, { Type: "withdraw:sent", Data: '{"n": 1.0, "big": 12345678901234567890}' });
    await send.click();
    await dialog.getByText("Accepted. No subscription wants it.").waitFor();
    const shown = await relay.call("GET", "/api-keys/key_1/events/by-hand:2");
    expect(shown.text).toContain('{"n": 1.0, "big": 12345678901234567890}');
  });

  it("shows what each type means, with its example and schema, and leads to its events", async ({ page, go }) => {
    await go("k/key_1/types", "Event types");
    await page.getByText("Money has come in.").waitFor();
    await page.getByRole("button", { name: "Show the data of deposit:paid" }).click();
    await page.getByText('"required"').waitFor();
    await expectAccessible(page, "types");
    await page.getByRole("link", { name: "withdraw:sent" }).click();
    await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
    expect(await page.getByLabel("Type", { exact: true }).inputValue()).toBe("withdraw:sent");
  });
});
