// A session that ends while something is typed: nothing of it is lost to the one who typed it, or shown to another.
import { describe, expect, it } from "vitest";
import { jwt } from "../../config/index.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { AUDIENCE, ISSUER, SECRET, sharedToken } from "../support/tokens.ts";
import { expectAccessible, fillLogin, held, PASSWORD, picture, setUp, useBrowser, type Screen } from "./browser.ts";

const browser = useBrowser();

/** Ends the browser's session on the relay; the page learns it with its next request. */
async function endSession(relay: TestRelay, { page }: Screen): Promise<void> {
  const { token } = (await page.evaluate(
    "fetch('/auth/refresh', { method: 'POST' }).then((r) => r.json()).then((r) => r.data)",
  )) as { token: string };
  expect((await relay.call("POST", "/auth/logout", { token })).status).toBe(204);
}

/** Adds a second person, who may manage `key_1`. */
async function addGrace(relay: TestRelay): Promise<void> {
  const body = { username: "grace", password: PASSWORD, keys: ["key_1"], access: "manage" };
  const added = await relay.call("POST", "/auth/users", { body, token: await relay.token({ mfa: true }) });
  expect(added.status, added.text).toBe(201);
}

describe.skipIf(browser.missing !== undefined)(`a session that ends (${browser.missing ?? "in Chromium"})`, () => {
  it("keeps what was typed until the same person has logged in again, and stores nothing of it", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page, complaints } = screen;
    await setUp(relay, screen);
    await screen.go("k/key_1/subscriptions", "Subscriptions");
    await page.getByRole("button", { name: "Create subscription" }).first().click();
    await page.getByLabel("URL").fill(receiver.url("/typed"));
    await page.getByLabel("Add an event name or pattern").fill("deposit:*");
    await page.keyboard.press("Enter");
    await page.getByLabel("Description").fill("Typed with care");
    await endSession(relay, screen);
    await page.getByRole("button", { name: "Create", exact: true }).click();

    const login = page.getByRole("dialog", { name: "Log in" });
    await login.getByText("Your session has ended.").waitFor();
    await expectAccessible(page);
    await picture(page, "session-ended", false);
    // It hides what was shown, and nothing closes it.
    const behind = "getComputedStyle(document.querySelector('dialog.covers'), '::backdrop').backgroundColor";
    expect(await page.evaluate(behind)).toBe(
      await page.evaluate("getComputedStyle(document.documentElement).backgroundColor"),
    );
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await login.waitFor();
    const kept = await page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])");
    expect(kept).toBe('[{},{"relay.key":"key_1"},""]');
    await fillLogin(page, "not the password at all");
    await login.getByText("The username, the password or the code is wrong.").waitFor();
    await fillLogin(page, PASSWORD);
    await login.waitFor({ state: "detached" });

    expect(await page.getByLabel("URL").inputValue()).toBe(receiver.url("/typed"));
    expect(await page.getByLabel("Description").inputValue()).toBe("Typed with care");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { name: "Keep this secret now" }).waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    expect((await relay.call("GET", "/api-keys/key_1/webhooks")).json.data).toHaveLength(1);

    // A secret that is shown once outlives the next end of the session too.
    const secret = await page.locator(".secret code").innerText();
    await endSession(relay, screen);
    await relay.publish({ type: "deposit:paid", keyId: "key_1", data: 1 });
    await login.waitFor({ timeout: 30_000 });
    await fillLogin(page, PASSWORD);
    await login.waitFor({ state: "detached" });
    expect(await page.locator(".secret code").innerText()).toBe(secret);
    expect(complaints).toEqual([]);
  });

  it("reads a view again that it kept from being read", async () => {
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await screen.go("k/key_1/subscriptions", "Subscriptions");
    await page.getByRole("heading", { name: "No subscription yet" }).waitFor();
    await endSession(relay, screen);
    await page.getByRole("link", { name: "Events" }).click();
    await page.getByText("Your session has ended.").waitFor();
    await fillLogin(page, PASSWORD);
    await page.getByRole("heading", { name: "No event yet" }).waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
    await page.getByText("live", { exact: true }).waitFor();
  });

  it("is told where only the stream can learn it", async () => {
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await screen.go("k/key_1/events", "Events");
    await page.getByText("live", { exact: true }).waitFor();
    await endSession(relay, screen);
    await page.context().setOffline(true);
    await page.getByText("offline", { exact: true }).waitFor();
    // No view reads anything meanwhile.
    await page.context().setOffline(false);
    await page.getByText("Your session has ended.").waitFor({ timeout: 20_000 });
  });

  it("shows nothing of it to another person who logs in then, nor after a logout", async () => {
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await addGrace(relay);
    await screen.go("k/key_1/subscriptions", "Subscriptions");
    await page.getByRole("button", { name: "Create subscription" }).first().click();
    await page.getByLabel("Description").fill("Typed by somebody else");
    await endSession(relay, screen);
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const login = page.getByRole("dialog", { name: "Log in" });
    await fillLogin(login, PASSWORD, "grace");
    await login.waitFor({ state: "detached" });
    await page.getByRole("heading", { name: "No subscription yet" }).waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { level: 1, name: "Log in" }).waitFor();
    expect(await page.locator(".shell").count()).toBe(0);
  });

  it("shows a secret that comes after a logout to nobody else", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await addGrace(relay);
    await screen.go("k/key_1/subscriptions", "Subscriptions");
    const made = await held(page, "POST", "/api-keys/key_1/webhooks");
    await page.getByRole("button", { name: "Create subscription" }).first().click();
    await page.getByLabel("URL").fill(receiver.url("/late"));
    await page.getByLabel("Add an event name or pattern").fill("deposit:*");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await made.answered;
    await screen.go("account", "Account");
    await page.getByRole("button", { name: "Log out" }).click();
    await fillLogin(page, PASSWORD, "grace");
    await page.getByRole("button", { name: "Log out" }).waitFor();
    const came = page.waitForResponse((response) => response.request().method() === "POST" && response.ok());
    made.release();
    await (await came).finished();
    // What the page does with the answer is done before the next view is drawn.
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(await page.content()).not.toContain("whsec_");
  });

  it("does not go on as another person who has logged in beside it", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await addGrace(relay);
    await screen.go("k/key_1/subscriptions", "Subscriptions");
    await page.getByRole("button", { name: "Create subscription" }).first().click();
    await page.getByLabel("URL").fill(receiver.url("/typed"));
    await page.getByLabel("Add an event name or pattern").fill("deposit:*");
    await page.keyboard.press("Enter");

    const beside = await page.context().newPage();
    await beside.goto(`${relay.url}/developers`);
    await beside.getByRole("button", { name: "Log out" }).click();
    await fillLogin(beside, PASSWORD, "grace");
    await beside.getByRole("button", { name: "Log out" }).waitFor();

    await page.getByRole("button", { name: "Create", exact: true }).click();
    const login = page.getByRole("dialog", { name: "Log in" });
    await login.getByText("Your session has ended.").waitFor();
    expect((await relay.call("GET", "/api-keys/key_1/webhooks")).json.data).toHaveLength(0);
    await fillLogin(page, PASSWORD);
    await login.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { name: "Keep this secret now" }).waitFor();
    const [line] = (await relay.call("GET", "/api-keys/key_1/audit?action=subscription")).json.data;
    expect(line).toMatchObject({ action: "subscription.created", by: "ada" });
  });

  it("asks for another access token where the relay has no accounts", async () => {
    let aheadMs = 0;
    const clock = { ...systemClock(), now: () => Date.now() + aheadMs };
    const auth = jwt({ secret: SECRET, algorithms: ["HS256"], issuer: ISSUER, audience: AUDIENCE });
    await using relay = await startRelay({ auth }, undefined, clock);
    await using screen = await browser.open(relay);
    const { page } = screen;
    const paste = async (): Promise<void> => {
      await page.getByLabel("Access token", { exact: true }).fill(sharedToken(Date.now() + aheadMs));
      await page.getByRole("button", { name: "Go on" }).click();
    };
    await page.goto(`${relay.url}/developers`);
    await paste();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await screen.go("k/key_a/subscriptions", "Subscriptions");
    await page.getByRole("button", { name: "Create subscription" }).first().click();
    await page.getByLabel("Description").fill("Typed with care");
    aheadMs = 7_200_000;
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Use your access token" });
    await dialog.getByText("Your session has ended.").waitFor();
    await paste();
    await dialog.waitFor({ state: "detached" });
    expect(await page.getByLabel("Description").inputValue()).toBe("Typed with care");
  });
});
