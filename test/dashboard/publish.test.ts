// An event that is published by hand: types and examples are offered, mistakes are told, and the event is one click away.
import { describe, expect, it } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { expectAccessible, picture, useLoggedIn } from "./browser.ts";

let relay: TestRelay;
let receiver: Receiver;
const schema = { type: "object", required: ["amount"], properties: { amount: { type: "string" } } };
const browser = useLoggedIn(async (kept) => {
  receiver = kept.use(await startReceiver());
  relay = kept.use(
    await startRelay({
      events: {
        "deposit:paid": { schema, description: "Money has come in.", example: { amount: "12.50" } },
        "withdraw:sent": {},
      },
      validate: "refuse",
    }),
  );
  const body = { url: receiver.url("/hand"), events: ["deposit:*"], description: "Books" };
  expect((await relay.call("POST", "/api-keys/key_1/webhooks", { body })).status).toBe(201);
  return relay;
});
const { open } = browser;

describe.skipIf(browser.missing !== undefined)(`publishing by hand (${browser.missing ?? "in Chromium"})`, () => {
  it("offers types and their examples, and leads to the event", async () => {
    await using screen = await open();
    const { page, complaints } = screen;
    await screen.go("k/key_1/events", "Events");
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
    await screen.go("k/key_1/audit", "Audit");
    await page.getByRole("row", { name: /Event published.*by-hand:1/ }).waitFor();
    expect(complaints).toEqual([]);
  });

  it("sends the data as it is typed, and tells what is wrong in the relay's words", async () => {
    await using screen = await open();
    const { page } = screen;
    await screen.go("k/key_1/overview", "Overview");
    await page.getByRole("button", { name: "Publish event…" }).click();
    const dialog = page.getByRole("dialog", { name: "Publish event" });
    const publish = dialog.getByRole("button", { name: "Publish", exact: true });
    await dialog.getByLabel("Type").fill("deposit:paid");
    await dialog.getByLabel("Data").fill('{"amount": ');
    await publish.click();
    await dialog.getByText("The data is not JSON").waitFor();
    await dialog.getByLabel("Data").fill('{"amount": 5}');
    await publish.click();
    await dialog.getByRole("listitem").getByText("data.amount").waitFor();
    await dialog.getByLabel("Event id").fill("no id");
    await publish.click();
    await dialog.getByRole("listitem").getByText("must be 1 to 128 characters").waitFor();
    await expectAccessible(page);
    await dialog.getByLabel("Event id").fill("by-hand:2");
    await dialog.getByLabel("Type").fill("withdraw:sent");
    await dialog.getByLabel("Data").fill('{"n": 1.0, "big": 12345678901234567890}');
    await publish.click();
    await dialog.getByText("Accepted. No subscription wants it.").waitFor();
    const shown = await relay.call("GET", "/api-keys/key_1/events/by-hand:2");
    expect(shown.text).toContain('{"n": 1.0, "big": 12345678901234567890}');
  });

  it("shows what each type means, with its example and schema, and leads to its events", async () => {
    await using screen = await open();
    const { page, complaints } = screen;
    await screen.go("k/key_1/types", "Event types");
    await page.getByText("Money has come in.").waitFor();
    await page.getByRole("button", { name: "Show the data of deposit:paid" }).click();
    await page.getByText('"required"').waitFor();
    await expectAccessible(page);
    await picture(page, "types");
    await page.getByRole("link", { name: "withdraw:sent" }).click();
    await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
    expect(await page.getByLabel("Type", { exact: true }).inputValue()).toBe("withdraw:sent");
    expect(complaints).toEqual([]);
  });
});
