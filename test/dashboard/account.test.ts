// The ways in and out, in a real browser: the first account, logins, second factors, sessions that end.
import { describe, expect, it } from "vitest";
import { jwt } from "../../config/index.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { totpCode } from "../../plugins/auth/accounts/codes.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import { AUDIENCE, ISSUER, SECRET, sharedToken } from "../support/tokens.ts";
import {
  expectAccessible,
  fillLogin,
  held,
  logIn,
  PASSWORD,
  picture,
  secondFactor,
  setUp,
  setupCode,
  useBrowser,
} from "./browser.ts";

const browser = useBrowser();
const step = (): number => Math.floor(Date.now() / 30_000);

describe.skipIf(browser.missing !== undefined)(`the way in (${browser.missing ?? "in Chromium"})`, () => {
  it("begins with the set-up code; a wrong one and a short password are told", async () => {
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page, complaints } = screen;
    await page.goto(`${relay.url}/developers`);
    await page.getByRole("heading", { name: "Set up this relay" }).waitFor();
    await expectAccessible(page);
    await picture(page, "setup");
    await page.getByLabel("Set-up code").fill("ABCD-EFGH");
    await page.getByLabel("Username").fill("ada");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByRole("button", { name: "Make the account" }).click();
    await page.getByText("The set-up code is wrong or has expired.").waitFor();
    await page.getByLabel("Set-up code").fill(setupCode(relay));
    await page.getByLabel("Password").fill("short");
    await page.getByRole("button", { name: "Make the account" }).click();
    await page.getByText("must be 12 to").first().waitFor();
    await setUp(relay, screen);
    await page.getByRole("heading", { name: "No API key is in use yet" }).waitFor();
    expect(complaints).toEqual([]);
  });

  it("logs in and out; a reload goes on with the session, and one that was ended elsewhere is told", async () => {
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { name: "Log in" }).waitFor();
    await expectAccessible(page);
    await picture(page, "login");
    await fillLogin(page, "not the password at all");
    await page.getByText("The username, the password or the code is wrong.").waitFor();
    await fillLogin(page, PASSWORD);
    await page.getByRole("button", { name: "Log out" }).waitFor();
    await screen.go("k/key_1/subscriptions", "Subscriptions");
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Subscriptions" }).waitFor();

    // The session ends on the relay; the page learns it with its next request, and comes back to the same view.
    const { token } = (await page.evaluate(
      "fetch('/auth/refresh', { method: 'POST' }).then((r) => r.json()).then((r) => r.data)",
    )) as { token: string };
    expect((await relay.call("POST", "/auth/logout", { token })).status).toBe(204);
    await page.getByRole("link", { name: "Events" }).click();
    await page.getByText("Your session has ended.").waitFor();
    await fillLogin(page, PASSWORD);
    await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
  });

  it("stays where somebody goes at the very moment in which a login leads on to the first key", async () => {
    await using relay = await startRelay();
    await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: "https://127.0.0.1:9/a", events: ["*"] } });
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    // Away from the page first: it may be asking for keys, or remembering one, at this very moment.
    await page.goto(`${relay.url}/healthz`);
    await page.evaluate("sessionStorage.clear()");
    const asked = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    await page.route(
      (url) => url.pathname === "/api-keys",
      async (route) => {
        asked.resolve();
        await go.promise;
        await route.continue();
      },
    );
    await page.goto(`${relay.url}/developers`);
    await asked.promise;
    // What a drawing has led to is done in a timer after it: there the address has changed, and no event tells of it yet.
    await page.evaluate(`{
      const later = setTimeout;
      window.setTimeout = (work, ms, ...more) => later(() => {
        if (ms === undefined && location.hash.length < 3) location.hash = "#/account";
        work(...more);
      }, ms);
    }`);
    go.resolve();
    await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();
    expect(await page.evaluate("location.hash")).toBe("#/account");
  });

  it("turns a second factor on with a QR code, asks for it at login, and for a fresh one before a secret is rotated", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay();
    const made = await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: receiver.url(), events: ["*"] } });
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);

    await screen.go(`k/key_1/subscriptions/${made.json.data.id}`, /127/);
    await page.getByRole("button", { name: "Rotate secret" }).click();
    await page.getByRole("button", { name: "Rotate", exact: true }).click();
    await page.getByText("your account has none yet").waitFor();
    await page.getByRole("button", { name: "Set one up" }).click();
    await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();

    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByRole("button", { name: "Set up a second factor" }).click();
    const secret = (await page.locator(".steps code").innerText()).replaceAll(" ", "");
    expect(secret).toMatch(/^[A-Z2-7]{32}$/);
    await page.getByRole("img", { name: /QR code/ }).waitFor();
    expect((await page.locator("svg.qr path").getAttribute("d"))?.length).toBeGreaterThan(1_000);
    await expectAccessible(page);
    await picture(page, "second-factor");
    await page.getByLabel("Code", { exact: true }).fill("000000");
    await page.getByRole("button", { name: "Turn it on" }).click();
    await page.getByText("The code is wrong").waitFor();
    await page.getByLabel("Code", { exact: true }).fill(totpCode(secret, step()));
    await page.getByRole("button", { name: "Turn it on" }).click();
    await page.getByText("Your second factor is on.").waitFor();
    const recovery = await page.locator(".codes code").allInnerTexts();
    expect(recovery).toHaveLength(10);
    await expectAccessible(page);
    await page.getByRole("button", { name: "I have kept them" }).click();
    await page.getByRole("button", { name: "Log out" }).click();

    await page.getByRole("heading", { name: "Log in" }).waitFor();
    await logIn(relay, screen, recovery[0]);
    // Logging in with two factors is fresh enough: no dialog comes between.
    await screen.go(`k/key_1/subscriptions/${made.json.data.id}`, /127/);
    await page.getByRole("button", { name: "Rotate secret" }).click();
    await page.getByRole("button", { name: "Rotate", exact: true }).click();
    await page.getByRole("heading", { name: "Keep this secret now" }).waitFor();
    expect(await page.locator(".secret code").innerText()).toMatch(/^whsec_/);
    await page.getByText("The old secret also signs until").waitFor();
    await picture(page, "rotated", false);
  });

  it("asks for the second factor when the last one is too old, and goes on by itself", async () => {
    await using receiver = await startReceiver();
    // The relay's clock goes ahead of the browser's by as much as the second factor has to age.
    let aheadMs = 0;
    const clock = { ...systemClock(), now: () => Date.now() + aheadMs };
    await using relay = await startRelay({ stepUp: { maxAgeMs: 120_000 } }, undefined, clock);
    const made = await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: receiver.url(), events: ["*"] } });
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    const recovery = await secondFactor(screen);
    await screen.go(`k/key_1/subscriptions/${made.json.data.id}`, /127/);
    aheadMs = 125_000;
    await page.getByRole("button", { name: "Rotate secret" }).click();
    await page.getByRole("button", { name: "Rotate", exact: true }).click();
    await page.getByRole("heading", { name: "Confirm that it is you" }).waitFor();
    await page.locator(".field :focus").waitFor();
    await expectAccessible(page);
    await picture(page, "step-up", false);
    await page.getByLabel("Code of your second factor").fill("123456");
    await page.getByRole("button", { name: "Confirm" }).click();
    await page.getByText("The code is wrong, or was used before").waitFor();
    await page.getByLabel("Code of your second factor").fill(recovery[1] as string);
    await page.getByRole("button", { name: "Confirm" }).click();
    await page.getByRole("heading", { name: "Keep this secret now" }).waitFor();
  });

  it("asks for the second factor once, for the view that is open and not for an action that was left", async () => {
    await using receiver = await startReceiver();
    let aheadMs = 0;
    const clock = { ...systemClock(), now: () => Date.now() + aheadMs };
    await using relay = await startRelay({}, undefined, clock);
    const made = await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: receiver.url(), events: ["*"] } });
    const { id } = made.json.data;
    await using screen = await browser.open(relay);
    const { page, limited } = screen;
    await setUp(relay, screen);
    const recovery = await secondFactor(screen);

    aheadMs = 305_000;
    const rotate = `/api-keys/key_1/webhooks/${id}/rotate-secret`;
    const refused = await held(page, "POST", rotate);
    await screen.go(`k/key_1/subscriptions/${id}`, /127/);
    await page.getByRole("button", { name: "Rotate secret" }).click();
    await page.getByRole("button", { name: "Rotate", exact: true }).click();
    await refused.answered;
    await screen.go("users", "Users");
    const dialog = page.getByRole("dialog", { name: "Confirm that it is you" });
    await dialog.waitFor();
    const came = page.waitForResponse((response) => response.url().endsWith(rotate));
    refused.release();
    await (await came).finished();
    await dialog.getByLabel("Code of your second factor").fill(recovery[1] as string);
    await dialog.getByRole("button", { name: "Confirm" }).click();
    await page.getByRole("row", { name: /^ada/ }).waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(limited.filter((one) => one.startsWith("POST") && one.endsWith(rotate))).toHaveLength(1);
  });

  it("takes a pasted token where the relay has no accounts, and forgets it with the page", async () => {
    await using relay = await startRelay({
      auth: jwt({ secret: SECRET, algorithms: ["HS256"], issuer: ISSUER, audience: AUDIENCE }),
    });
    await using screen = await browser.open(relay);
    const { page } = screen;
    await page.goto(`${relay.url}/developers`);
    await page.getByRole("heading", { name: "Use your access token" }).waitFor();
    await expectAccessible(page);
    await picture(page, "paste");
    await page.getByLabel("Access token").fill("not.a.token");
    await page.getByRole("button", { name: "Go on" }).click();
    await page.getByText("This is not a token").waitFor();
    await page.getByLabel("Access token").fill(sharedToken(Date.now()).slice(0, -4));
    await page.getByRole("button", { name: "Go on" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Access token").fill(sharedToken(Date.now()));
    await page.getByRole("button", { name: "Go on" }).click();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    expect(
      await page.evaluate(
        "JSON.stringify({ ...localStorage }) + JSON.stringify({ ...sessionStorage }) + document.cookie",
      ),
    ).toBe('{}{"relay.key":"key_a"}');
    await page.reload();
    await page.getByRole("heading", { name: "Use your access token" }).waitFor();
  });
});
