// The ways in and out, in a real browser: the first account, logins, second factors, sessions that end.
import { expect } from "vitest";
import { jwt } from "../../config/index.ts";
import { totpCode } from "../../plugins/auth/accounts/codes.ts";
import { AUDIENCE, ISSUER, SECRET, sharedToken } from "../support/tokens.ts";
import {
  expectAccessible,
  fill,
  fillLogin,
  held,
  logIn,
  PASSWORD,
  picture,
  press,
  secondFactor,
  setUp,
  setupCode,
} from "./browser.ts";
import { alone } from "./stage.ts";

const step = (): number => Math.floor(Date.now() / 30_000);

alone("the way in", (it) => {
  it("begins with the set-up code; a wrong one and a short password are told", async (start) => {
    const { page, relay, screen } = await start({}, { account: false });
    await page.goto(`${relay.url}/developers`);
    await page.getByRole("heading", { name: "Set up this relay" }).waitFor();
    await expectAccessible(page, "setup");
    await fill(page, { "Set-up code": "ABCD-EFGH", Username: "ada", Password: PASSWORD }, "Make the account");
    await page.getByText("The set-up code is wrong or has expired.").waitFor();
    await fill(page, { "Set-up code": setupCode(relay), Password: "short" }, "Make the account");
    await page.getByText("must be 12 to").first().waitFor();
    await setUp(relay, screen);
    await page.getByRole("heading", { name: "No API key is in use yet" }).waitFor();
  });

  it("logs in and out; a reload goes on with the session", async (start) => {
    const { page, go } = await start();
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { name: "Log in" }).waitFor();
    await expectAccessible(page, "login");
    await fillLogin(page, "not the password at all");
    await page.getByText("The username, the password or the code is wrong.").waitFor();
    await fillLogin(page, PASSWORD);
    await page.getByRole("button", { name: "Log out" }).waitFor();
    await go("k/key_1/subscriptions", "Subscriptions");
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Subscriptions" }).waitFor();
  });

  it("stays where somebody goes at the very moment in which a login leads on to the first key", async (start) => {
    const { page, relay } = await start();
    await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: "https://127.0.0.1:9/a", events: ["*"] } });
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    // Away from the page first: it may be asking for keys, or remembering one, at this very moment.
    await page.goto(`${relay.url}/healthz`);
    await page.evaluate("sessionStorage.clear()");
    const known = await held(page, "GET", "/api-keys");
    await page.goto(`${relay.url}/developers`);
    await known.answered;
    // A timer after a drawing does what it has led to: there the address has changed, and no event tells of it yet.
    await page.evaluate(`{
      const later = setTimeout;
      window.setTimeout = (work, ms, ...more) => later(() => {
        if (ms === undefined && location.hash.length < 3) location.hash = "#/account";
        work(...more);
      }, ms);
    }`);
    known.release();
    await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();
    expect(await page.evaluate("location.hash")).toBe("#/account");
  });

  it("turns a second factor on with a QR code, asks for it at login, and for a fresh one before a secret is rotated", async (start) => {
    const { page, go, relay, screen, subscribe } = await start();
    const { id: sub } = await subscribe("/", {}, "key_1");

    await go(`k/key_1/subscriptions/${sub}`, /127/);
    await press(page, "Rotate secret", "Rotate");
    await page.getByText("your account has none yet").waitFor();
    await page.getByRole("button", { name: "Set one up" }).click();
    await page.getByRole("heading", { level: 1, name: "Account" }).waitFor();

    await fill(page, { Password: PASSWORD }, "Set up a second factor");
    const secret = (await page.locator(".steps code").innerText()).replaceAll(" ", "");
    expect(secret).toMatch(/^[A-Z2-7]{32}$/);
    await page.getByRole("img", { name: /QR code/ }).waitFor();
    expect((await page.locator("svg.qr path").getAttribute("d"))?.length).toBeGreaterThan(1_000);
    await expectAccessible(page, "second-factor");
    await page.getByLabel("Code", { exact: true }).fill("000000");
    await page.getByRole("button", { name: "Turn it on" }).click();
    await page.getByText("The code is wrong").waitFor();
    await page.getByLabel("Code", { exact: true }).fill(totpCode(secret, step()));
    await page.getByRole("button", { name: "Turn it on" }).click();
    await page.getByText("Your second factor is on.").waitFor();
    const recovery = await page.locator(".codes code").allInnerTexts();
    expect(recovery).toHaveLength(10);
    await expectAccessible(page);
    await press(page, "I have kept them", "Log out");

    await page.getByRole("heading", { name: "Log in" }).waitFor();
    await logIn(relay, screen, recovery[0]);
    // Logging in with two factors is fresh enough: no dialog comes between.
    await go(`k/key_1/subscriptions/${sub}`, /127/);
    await press(page, "Rotate secret", "Rotate");
    await page.getByRole("heading", { name: "Keep this secret now" }).waitFor();
    expect(await page.locator(".secret code").innerText()).toMatch(/^whsec_/);
    await page.getByText("The old secret also signs until").waitFor();
    await picture(page, "rotated", false);
  });

  it("asks for the second factor when the last one is too old, and goes on by itself", async (start) => {
    const { page, go, screen, subscribe, ahead } = await start({ stepUp: { maxAgeMs: 120_000 } });
    // The relay's clock goes ahead of the browser's by as much as the second factor has to age.
    const { id: sub } = await subscribe("/", {}, "key_1");
    const recovery = await secondFactor(screen);
    await go(`k/key_1/subscriptions/${sub}`, /127/);
    ahead(125_000);
    await press(page, "Rotate secret", "Rotate");
    await page.getByRole("heading", { name: "Confirm that it is you" }).waitFor();
    await page.locator(".field :focus").waitFor();
    await expectAccessible(page, "step-up", false);
    await fill(page, { "Code of your second factor": "123456" }, "Confirm");
    await page.getByText("The code is wrong, or was used before").waitFor();
    await fill(page, { "Code of your second factor": recovery[1] as string }, "Confirm");
    await page.getByRole("heading", { name: "Keep this secret now" }).waitFor();
  });

  it("asks for the second factor once, for the view that is open and not for an action that was left", async (start) => {
    const { page, go, limited, screen, subscribe, ahead } = await start();
    const { id } = await subscribe("/", {}, "key_1");
    const recovery = await secondFactor(screen);

    ahead(305_000);
    const rotate = `/api-keys/key_1/webhooks/${id}/rotate-secret`;
    const refused = await held(page, "POST", rotate);
    await go(`k/key_1/subscriptions/${id}`, /127/);
    await press(page, "Rotate secret", "Rotate");
    await refused.answered;
    await go("users", "Users");
    const dialog = page.getByRole("dialog", { name: "Confirm that it is you" });
    await dialog.waitFor();
    const came = page.waitForResponse((response) => response.url().endsWith(rotate));
    refused.release();
    await (await came).finished();
    await fill(dialog, { "Code of your second factor": recovery[1] as string }, "Confirm");
    await page.getByRole("row", { name: /^ada/ }).waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(limited.filter((one) => one.startsWith("POST") && one.endsWith(rotate))).toHaveLength(1);
  });

  it("takes a pasted token where the relay has no accounts, and forgets it with the page", async (start) => {
    const { page, relay } = await start(
      {
        auth: jwt({ secret: SECRET, algorithms: ["HS256"], issuer: ISSUER, audience: AUDIENCE }),
      },
      { account: false },
    );
    await page.goto(`${relay.url}/developers`);
    await page.getByRole("heading", { name: "Use your access token" }).waitFor();
    await expectAccessible(page, "paste");
    await fill(page, { "Access token": "not.a.token" }, "Go on");
    await page.getByText("This is not a token").waitFor();
    await fill(page, { "Access token": sharedToken(Date.now()).slice(0, -4) }, "Go on");
    await page.getByRole("alert").waitFor();
    expect(await page.getByText("Your session has ended.").count()).toBe(0);
    await fill(page, { "Access token": sharedToken(Date.now()) }, "Go on");
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
