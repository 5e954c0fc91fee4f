// Several people at one page, one after another: nothing that one has begun goes on as the next, or is shown to them.
import { describe, expect, it } from "vitest";
import { jwt } from "../../config/index.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { AUDIENCE, ISSUER, SECRET, sharedToken } from "../support/tokens.ts";
import { fillLogin, held, PASSWORD, secondFactor, setUp, useBrowser, type Screen } from "./browser.ts";

const browser = useBrowser();

/** Adds a second person, who may manage some keys. */
async function addGrace(relay: TestRelay, keys: readonly string[]): Promise<void> {
  const body = { username: "grace", password: PASSWORD, keys, access: "manage" };
  const added = await relay.call("POST", "/auth/users", { body, token: await relay.token({ mfa: true }) });
  expect(added.status, added.text).toBe(201);
}

async function next({ page }: Screen): Promise<void> {
  await page.getByRole("button", { name: "Log out" }).click();
  await fillLogin(page, PASSWORD, "grace");
  await page.getByRole("button", { name: "Log out" }).waitFor();
}

describe.skipIf(browser.missing !== undefined)(`the next person (${browser.missing ?? "in Chromium"})`, () => {
  it("does not do what the one before was told to wait with", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay();
    const body = { url: receiver.url("/"), events: ["*"] };
    await relay.call("POST", "/api-keys/key_1/webhooks", { body });
    const { id } = (await relay.publish({ type: "deposit:paid", keyId: "key_1", data: 1 })).json.data;
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await addGrace(relay, ["key_1"]);
    await screen.go(`k/key_1/events/${id}`, "deposit:paid");
    let asked = 0;
    await page.route(`**/api-keys/key_1/events/${id}/replay`, async (route) => {
      if (asked++ > 0) return await route.continue();
      const json = { code: "RATE_LIMIT_EXCEEDED", detail: "Too many requests.", retryAfter: 6 };
      await route.fulfill({ status: 429, json });
    });
    await page.getByRole("button", { name: "Replay", exact: true }).click();
    await page.getByText(/It goes on by itself in \d s/).waitFor();
    await next(screen);
    await page.waitForTimeout(7_500);
    expect(asked).toBe(1);
    // Nor are they told that their own session has ended.
    expect(await page.getByText("Your session has ended.").count()).toBe(0);
  });

  it("sees neither the key, the subscriptions nor the title of the one before", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay();
    const body = { url: receiver.url("/"), events: ["*"], description: "Only for Ada" };
    const { id } = (await relay.call("POST", "/api-keys/key_1/webhooks", { body })).json.data;
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await addGrace(relay, ["key_2"]);
    await screen.go(`k/key_1/subscriptions/${id}`, "Only for Ada");
    const late = await held(page, "GET", "/api-keys/key_1/stats");
    await page.keyboard.press("Control+k");
    await late.answered;
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { level: 1, name: "Log in" }).waitFor();
    expect(await page.title()).not.toContain("Ada");
    const came = page.waitForResponse((response) => response.url().includes("/api-keys/key_1/stats"));
    late.release();
    await (await came).finished();
    await fillLogin(page, PASSWORD, "grace");
    await page.getByRole("button", { name: "Log out" }).waitFor();
    await screen.go("k/key_1/events", "Events");
    await page.getByRole("alert").waitFor();
    expect(await page.content()).not.toContain("Only for Ada");
    await screen.go("account", "Account");
    expect(await page.content()).not.toContain("key_1");
  });

  it("is awaited without a request", async () => {
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page, limited } = screen;
    await setUp(relay, screen);
    await page.clock.install();
    await screen.go("relay", "The relay");
    await page.getByText("Process id").waitFor();
    await page.evaluate("fetch('/auth/logout', { method: 'POST' })");
    await page.context().clearCookies();
    await page.route("**/relay/status*", (route) => route.fulfill({ status: 401, json: { code: "UNAUTHENTICATED" } }));
    await page.clock.fastForward(16_000);
    await page.getByText("Your session has ended.").waitFor();
    const before = limited.length;
    for (let i = 0; i < 4; i++) await page.clock.runFor(15_500);
    expect(limited.slice(before)).toEqual([]);
  });

  it("is told that a pasted token is no good, not that a session has ended", async () => {
    await using relay = await startRelay({
      auth: jwt({ secret: SECRET, algorithms: ["HS256"], issuer: ISSUER, audience: AUDIENCE }),
    });
    await using screen = await browser.open(relay);
    const { page } = screen;
    await page.goto(`${relay.url}/developers`);
    await page.getByLabel("Access token").fill(sharedToken(Date.now()).slice(0, -4));
    await page.getByRole("button", { name: "Go on" }).click();
    await page.getByRole("alert").waitFor();
    expect(await page.getByText("Your session has ended.").count()).toBe(0);
  });

  it("has nothing of a second factor that is confirmed late; a question that is open by then goes with it", async () => {
    await using receiver = await startReceiver();
    let aheadMs = 0;
    const clock = { ...systemClock(), now: () => Date.now() + aheadMs };
    await using relay = await startRelay({}, undefined, clock);
    const body = { url: receiver.url("/"), events: ["*"] };
    const { id } = (await relay.call("POST", "/api-keys/key_1/webhooks", { body })).json.data;
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    const recovery = await secondFactor(screen);
    await screen.go(`k/key_1/subscriptions/${id}`, /127/);
    aheadMs = 305_000;
    const dialog = page.getByRole("dialog", { name: "Confirm that it is you" });
    const rotate = async (): Promise<void> => {
      await page.getByRole("button", { name: "Rotate", exact: true }).click();
      await dialog.waitFor();
    };
    await page.getByRole("button", { name: "Rotate secret" }).click();
    await rotate();
    const late = await held(page, "POST", "/auth/step-up");
    await dialog.getByLabel("Code of your second factor").fill(recovery[0] as string);
    await dialog.getByRole("button", { name: "Confirm" }).click();
    await late.answered;
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
    await rotate();
    late.release();
    await page.getByRole("heading", { name: "Keep this secret now" }).waitFor();
    await page.getByLabel("I have stored it").check();
    await page.getByRole("button", { name: "Done" }).click();

    // One that comes after a logout is nobody's.
    await addGrace(relay, ["key_1"]);
    aheadMs = 610_000;
    const later = await held(page, "POST", "/auth/step-up");
    await page.getByRole("button", { name: "Rotate secret" }).click();
    await rotate();
    await dialog.getByLabel("Code of your second factor").fill(recovery[1] as string);
    await dialog.getByRole("button", { name: "Confirm" }).click();
    await later.answered;
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await next(screen);
    const came = page.waitForResponse((response) => response.url().endsWith("/auth/step-up"));
    later.release();
    await (await came).finished();
    await screen.go("account", "Account");
    await page.getByText("grace", { exact: true }).waitFor();
  });
});
