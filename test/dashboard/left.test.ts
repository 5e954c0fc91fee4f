// Views that somebody leaves while a request is under way: nothing that is shown once is lost, and nobody is pulled back.
import { describe, expect, it } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { expectAccessible, held, useLoggedIn, type Screen } from "./browser.ts";

let relay: TestRelay;
let receiver: Receiver;
const browser = useLoggedIn(async (kept) => {
  receiver = kept.use(await startReceiver());
  relay = kept.use(await startRelay());
  return relay;
});
const { open } = browser;

let keys = 0;
const freshKey = (): string => `key_${++keys}`;

/** Begins to create a subscription, up to the request. */
async function create({ page, go }: Screen, keyId: string): Promise<void> {
  await go(`k/${keyId}/subscriptions`, "Subscriptions");
  await page.getByRole("button", { name: "Create subscription" }).first().click();
  await page.getByLabel("URL").fill(receiver.url("/left"));
  await page.getByLabel("Description").fill("The shop");
  await page.getByLabel("Add an event name or pattern").fill("deposit:*");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Create", exact: true }).click();
}
const place = ({ page }: Screen): Promise<unknown> => page.evaluate("location.hash");

describe.skipIf(browser.missing !== undefined)(`a view that is left (${browser.missing ?? "in Chromium"})`, () => {
  it("leaves the secret of a new subscription above the view that follows", async () => {
    const keyId = freshKey();
    await using screen = await open();
    const { page, complaints } = screen;
    const made = await held(page, "POST", `/api-keys/${keyId}/webhooks`);
    await create(screen, keyId);
    await made.answered;
    await screen.go(`k/${keyId}/events`, "Events");
    made.release();
    const secret = page.getByRole("dialog", { name: "Keep this secret now" });
    await secret.waitFor();
    await secret.getByText("The shop").waitFor();
    const text = await secret.locator(".secret code").innerText();
    expect(text).toMatch(/^whsec_/);
    expect(await place(screen)).toBe(`#/k/${keyId}/events`);
    await expectAccessible(page);
    // Once it is shown, the back button does not take it away either.
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Subscriptions" }).waitFor();
    expect(await secret.locator(".secret code").innerText()).toBe(text);
    await secret.getByLabel("I have stored it").check();
    await secret.getByRole("button", { name: "Done" }).click();
    await secret.waitFor({ state: "detached" });
    expect(await page.content()).not.toContain("whsec_");
    expect(complaints).toEqual([]);
  });

  it("does not pull back whoever deletes a subscription or erases an event and goes elsewhere", async () => {
    const keyId = freshKey();
    const body = { url: receiver.url("/left"), events: ["*"], description: "Doomed" };
    const { id } = (await relay.call("POST", `/api-keys/${keyId}/webhooks`, { body })).json.data;
    const event = (await relay.publish({ type: "deposit:paid", keyId, data: 1 })).json.data.id;
    await using screen = await open();
    const { page } = screen;
    const deleted = await held(page, "DELETE", `/api-keys/${keyId}/webhooks/${id}`);
    await screen.go(`k/${keyId}/subscriptions/${id}`, "Doomed");
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByLabel(/^Type .* to confirm/).fill(new URL(receiver.origin).host);
    await page.getByRole("button", { name: "Delete for ever" }).click();
    await deleted.answered;
    await screen.go(`k/${keyId}/attempts`, "Attempts");
    deleted.release();
    await page.getByText("Deleted", { exact: true }).waitFor();
    expect(await place(screen)).toBe(`#/k/${keyId}/attempts`);

    const erased = await held(page, "DELETE", `/api-keys/${keyId}/events/${event}`);
    await screen.go(`k/${keyId}/events/${event}`, "deposit:paid");
    await page.getByRole("button", { name: "Erase…" }).click();
    await page.getByRole("button", { name: "Erase for ever" }).click();
    await erased.answered;
    await screen.go(`k/${keyId}/attempts`, "Attempts");
    erased.release();
    await page.getByText("The event is erased", { exact: true }).waitFor();
    expect(await place(screen)).toBe(`#/k/${keyId}/attempts`);
  });
});
