// Sessions that end, and the next person at the page: what was typed is neither lost to the one who typed it, nor shown to another.
import { expect } from "vitest";
import { jwt } from "../../config/index.ts";
import { type TestRelay } from "../support/relay.ts";
import { AUDIENCE, ISSUER, SECRET, sharedToken } from "../support/tokens.ts";
import { expectAccessible, fill, fillLogin, held, PASSWORD, type Screen, secondFactor } from "./browser.ts";
import { addGrace, alone, typeSubscription } from "./stage.ts";

/** Ends the browser's session on the relay; the page learns it with its next request. */
async function endSession(relay: TestRelay, { page }: Pick<Screen, "page">): Promise<void> {
  const { token } = (await page.evaluate(
    "fetch('/auth/refresh', { method: 'POST' }).then((r) => r.json()).then((r) => r.data)",
  )) as { token: string };
  expect((await relay.call("POST", "/auth/logout", { token })).status).toBe(204);
}

alone("a session that ends", (it) => {
  it("keeps what was typed until the same person has logged in again, and stores nothing of it", async (start) => {
    const { page, go, relay, receiver, screen } = await start();
    await go("k/key_1/subscriptions", "Subscriptions");
    await typeSubscription(page, receiver.url("/typed"));
    await page.getByLabel("Description").fill("Typed with care");
    await endSession(relay, screen);
    await page.getByRole("button", { name: "Create", exact: true }).click();

    const login = page.getByRole("dialog", { name: "Log in" });
    await login.getByText("Your session has ended.").waitFor();
    await expectAccessible(page, "session-ended", false);
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
  });

  it("reads a view again that it kept from being read", async (start) => {
    const { page, go, relay, screen } = await start();
    await go("k/key_1/subscriptions", "Subscriptions");
    await page.getByRole("heading", { name: "No subscription yet" }).waitFor();
    await endSession(relay, screen);
    await page.getByRole("link", { name: "Events" }).click();
    await page.getByText("Your session has ended.").waitFor();
    await fillLogin(page, PASSWORD);
    await page.getByRole("heading", { name: "No event yet" }).waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
    await page.getByText("live", { exact: true }).waitFor();
  });

  it("is told where only the stream can learn it", async (start) => {
    const { page, go, relay, screen } = await start();
    await go("k/key_1/events", "Events");
    await page.getByText("live", { exact: true }).waitFor();
    await endSession(relay, screen);
    await page.context().setOffline(true);
    await page.getByText("offline", { exact: true }).waitFor();
    // No view reads anything meanwhile.
    await page.context().setOffline(false);
    await page.getByText("Your session has ended.").waitFor({ timeout: 20_000 });
  });

  it("shows nothing of it to another person who logs in then, nor after a logout", async (start) => {
    const { page, go, relay, screen } = await start();
    await addGrace(relay);
    await go("k/key_1/subscriptions", "Subscriptions");
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

  it("shows a secret that comes after a logout to nobody else", async (start) => {
    const { page, go, relay, receiver } = await start();
    await addGrace(relay);
    await go("k/key_1/subscriptions", "Subscriptions");
    const made = await held(page, "POST", "/api-keys/key_1/webhooks");
    await typeSubscription(page, receiver.url("/late"));
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await made.answered;
    await go("account", "Account");
    await page.getByRole("button", { name: "Log out" }).click();
    await fillLogin(page, PASSWORD, "grace");
    await page.getByRole("button", { name: "Log out" }).waitFor();
    const came = page.waitForResponse((response) => response.request().method() === "POST" && response.ok());
    made.release();
    await (await came).finished();
    // The page has handled the answer before the next view is drawn.
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(await page.content()).not.toContain("whsec_");
  });

  it("does not go on as another person who has logged in beside it", async (start) => {
    const { page, go, relay, receiver } = await start();
    await addGrace(relay);
    await go("k/key_1/subscriptions", "Subscriptions");
    await typeSubscription(page, receiver.url("/typed"));

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

  it("asks for another access token where the relay has no accounts", async (start) => {
    const auth = jwt({ secret: SECRET, algorithms: ["HS256"], issuer: ISSUER, audience: AUDIENCE });
    const { page, go, relay, ahead } = await start({ auth }, { account: false });
    let aheadMs = 0;
    const paste = async (): Promise<void> => {
      await page.getByLabel("Access token", { exact: true }).fill(sharedToken(Date.now() + aheadMs));
      await page.getByRole("button", { name: "Go on" }).click();
    };
    await page.goto(`${relay.url}/developers`);
    await paste();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await go("k/key_a/subscriptions", "Subscriptions");
    await page.getByRole("button", { name: "Create subscription" }).first().click();
    await page.getByLabel("Description").fill("Typed with care");
    ahead((aheadMs = 7_200_000));
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Use your access token" });
    await dialog.getByText("Your session has ended.").waitFor();
    await paste();
    await dialog.waitFor({ state: "detached" });
    expect(await page.getByLabel("Description").inputValue()).toBe("Typed with care");
  });
});

async function next({ page }: Pick<Screen, "page">): Promise<void> {
  await page.getByRole("button", { name: "Log out" }).click();
  await fillLogin(page, PASSWORD, "grace");
  await page.getByRole("button", { name: "Log out" }).waitFor();
}

alone("the next person", (it) => {
  it("does not do what the one before was told to wait with", async (start) => {
    const { page, go, relay, subscribe, publish, screen } = await start();
    await subscribe("/", {}, "key_1");
    const id = await publish(undefined, { keyId: "key_1" });
    await addGrace(relay, ["key_1"]);
    await go(`k/key_1/events/${id}`, "deposit:paid");
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

  it("sees neither the key, the subscriptions nor the title of the one before", async (start) => {
    const { page, go, relay, subscribe } = await start();
    const { id } = await subscribe("/", { description: "Only for Ada" }, "key_1");
    await addGrace(relay, ["key_2"]);
    await go(`k/key_1/subscriptions/${id}`, "Only for Ada");
    const late = await held(page, "GET", "/api-keys/key_1/stats");
    await page.keyboard.press("Control+k");
    await late.answered;
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { level: 1, name: "Log in" }).waitFor();
    // The title follows what is drawn.
    await expect.poll(() => page.title()).not.toContain("Ada");
    const came = page.waitForResponse((response) => response.url().includes("/api-keys/key_1/stats"));
    late.release();
    await (await came).finished();
    await fillLogin(page, PASSWORD, "grace");
    await page.getByRole("button", { name: "Log out" }).waitFor();
    await go("k/key_1/events", "Events");
    await page.getByRole("alert").waitFor();
    expect(await page.content()).not.toContain("Only for Ada");
    await go("account", "Account");
    expect(await page.content()).not.toContain("key_1");
  });

  it("is awaited without a request", async (start) => {
    const { page, go, limited } = await start();
    await page.clock.install();
    await go("relay", "The relay");
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

  it("has nothing of a second factor that is confirmed late; a question that is open by then goes with it", async (start) => {
    const { page, go, relay, subscribe, screen, ahead } = await start();
    const { id } = await subscribe("/", {}, "key_1");
    const recovery = await secondFactor(screen);
    await go(`k/key_1/subscriptions/${id}`, /127/);
    ahead(305_000);
    const dialog = page.getByRole("dialog", { name: "Confirm that it is you" });
    const rotate = async (): Promise<void> => {
      await page.getByRole("button", { name: "Rotate", exact: true }).click();
      await dialog.waitFor();
    };
    await page.getByRole("button", { name: "Rotate secret" }).click();
    await rotate();
    const late = await held(page, "POST", "/auth/step-up");
    await fill(dialog, { "Code of your second factor": recovery[0] as string }, "Confirm");
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
    ahead(610_000);
    const later = await held(page, "POST", "/auth/step-up");
    await page.getByRole("button", { name: "Rotate secret" }).click();
    await rotate();
    await fill(dialog, { "Code of your second factor": recovery[1] as string }, "Confirm");
    await later.answered;
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await next(screen);
    const came = page.waitForResponse((response) => response.url().endsWith("/auth/step-up"));
    later.release();
    await (await came).finished();
    await go("account", "Account");
    await page.getByText("grace", { exact: true }).waitFor();
  });

  it("a question for the second factor goes when somebody goes elsewhere", async (start) => {
    const { page, go } = await start();
    await go("account", "Account");
    await page.getByRole("link", { name: "Users" }).click();
    await page.getByRole("dialog", { name: "A second factor is needed" }).waitFor();
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();
    await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
  });
});
