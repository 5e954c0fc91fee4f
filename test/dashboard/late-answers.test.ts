// Answers that come late, to views that were left or while others change what is shown: nothing is lost, and nobody is pulled back.
import { expect } from "vitest";
import { expectAccessible, fill, held, press } from "./browser.ts";
import { type Scene, stage, typeSubscription } from "./stage.ts";

/** Begins to create a subscription, up to the request. */
async function create({ page, go, keyId, receiver }: Scene): Promise<void> {
  await go(`k/${keyId}/subscriptions`, "Subscriptions");
  await typeSubscription(page, receiver.url("/left"));
  await fill(page, { Description: "The shop" }, "Create");
}
const place = ({ page }: Pick<Scene, "page">): Promise<unknown> => page.evaluate("location.hash");

stage("a view that is left", {}, (it) => {
  it("leaves the secret of a new subscription above the view that follows", async (scene) => {
    const { page, go, keyId } = scene;
    const made = await held(page, "POST", `/api-keys/${keyId}/webhooks`);
    await create(scene);
    await made.answered;
    await go(`k/${keyId}/events`, "Events");
    made.release();
    const secret = page.getByRole("dialog", { name: "Keep this secret now" });
    await secret.waitFor();
    await secret.getByText("The shop").waitFor();
    const text = await secret.locator(".secret code").innerText();
    expect(text).toMatch(/^whsec_/);
    expect(await place({ page })).toBe(`#/k/${keyId}/events`);
    await expectAccessible(page);
    // Once it is shown, the back button does not take it away either.
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Subscriptions" }).waitFor();
    expect(await secret.locator(".secret code").innerText()).toBe(text);
    await secret.getByLabel("I have stored it").check();
    await secret.getByRole("button", { name: "Done" }).click();
    await secret.waitFor({ state: "detached" });
    expect(await page.content()).not.toContain("whsec_");
  });

  it("does not pull back whoever deletes a subscription or erases an event and goes elsewhere", async (scene) => {
    const { page, go, receiver, keyId, subscribe, publish } = scene;
    const { id } = await subscribe("/left", { description: "Doomed" });
    const event = await publish();
    const deleted = await held(page, "DELETE", `/api-keys/${keyId}/webhooks/${id}`);
    await go(`k/${keyId}/subscriptions/${id}`, "Doomed");
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByLabel(/^Type .* to confirm/).fill(new URL(receiver.origin).host);
    await page.getByRole("button", { name: "Delete for ever" }).click();
    await deleted.answered;
    await go(`k/${keyId}/attempts`, "Attempts");
    deleted.release();
    await page.getByText("Deleted", { exact: true }).waitFor();
    expect(await place({ page })).toBe(`#/k/${keyId}/attempts`);

    const erased = await held(page, "DELETE", `/api-keys/${keyId}/events/${event}`);
    await go(`k/${keyId}/events/${event}`, "deposit:paid");
    await press(page, "Erase…", "Erase for ever");
    await erased.answered;
    await go(`k/${keyId}/attempts`, "Attempts");
    erased.release();
    await page.getByText("The event is erased", { exact: true }).waitFor();
    expect(await place({ page })).toBe(`#/k/${keyId}/attempts`);
  });
});

stage("what is known", {}, (it) => {
  it("of one key takes no form away that another key shows by then", async ({ page, go, keyId, subscribe }) => {
    await subscribe("/", { description: "Receiver of key_1" }, "key_1");
    const { id } = await subscribe("/", { description: "Receiver of key_2" });
    await go("k/key_1/audit", "Audit");
    await page.getByText("Receiver of key_1").first().waitFor();
    const late = await held(page, "GET", "/api-keys/key_1/stats");
    await page.keyboard.press("Control+k");
    await late.answered;
    await page.keyboard.press("Escape");
    await go(`k/${keyId}/subscriptions/${id}/deliveries`, "Receiver of key_2");
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Description").fill("Typed with care");
    const answered = page.waitForResponse((response) => response.url().includes("/api-keys/key_1/stats"));
    late.release();
    await (await answered).finished();
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))");
    expect(await page.getByLabel("Description").inputValue()).toBe("Typed with care");
  });

  it("follows what others change", async ({ page, go, relay, keyId, subscribe }) => {
    const { id } = await subscribe("/", { description: "Receiver of key_3" });
    await go(`k/${keyId}/audit`, "Audit");
    await page.getByText("live", { exact: true }).waitFor();
    await go(`k/${keyId}/subscriptions/${id}/deliveries`, "Receiver of key_3");
    await page.getByRole("button", { name: "Disable…" }).waitFor();
    const body = { status: "disabled", description: "Called otherwise" };
    expect((await relay.call("PATCH", `/api-keys/${keyId}/webhooks/${id}`, { body })).status).toBe(200);
    await page.getByRole("heading", { level: 1, name: "Called otherwise" }).waitFor();
    await page.getByRole("button", { name: "Enable" }).waitFor();
  });
});
