// The accounts of a relay on its page: listed, added, changed and removed by those who own every key.
import { expect } from "vitest";
import { expectAccessible, fill, held, PASSWORD, press, secondFactor } from "./browser.ts";
import { alone } from "./stage.ts";

alone("the users of a relay", (it) => {
  it("are listed after a fresh second factor, added with a password shown once, changed and removed", async (start) => {
    const { page, go, relay, open, screen } = await start();
    await go("users", "Users");
    await page.getByText("your account has none yet").waitFor();
    await page.getByRole("button", { name: "Not now" }).click();
    await page.getByRole("button", { name: "Confirm that it is you" }).waitFor();
    await expectAccessible(page);
    await secondFactor(screen);
    await page.getByRole("link", { name: "Users" }).click();
    await page.getByRole("row", { name: /^ada.*every key.*manage.*on/ }).waitFor();

    // A dialog that is closed has changed nothing: nothing is read again, which might ask for a factor.
    const asked = screen.limited.length;
    await press(page, "Add a user", "Cancel", "Add a user");
    expect(screen.limited.slice(asked)).toEqual([]);
    await fill(page, { Username: "Grace", "API keys": "key_1, key_2" });
    await page.getByLabel("May").selectOption("read");
    await expectAccessible(page);
    await page.getByRole("button", { name: "Add the user" }).click();
    await page.getByRole("heading", { name: "The password of grace" }).waitFor();
    const password = await page.locator(".secret code").innerText();
    expect(password).toMatch(/^[\w-]{24}$/);
    await page.getByRole("button", { name: "Done" }).click();
    const grace = page.getByRole("row", { name: /^grace/ });
    await expect.poll(() => grace.innerText()).toMatch(/key_1\s*key_2\s+look only\s+off/);
    await expectAccessible(page, "users");

    // She logs in with it, sees her keys, and no users.
    const hers = await open();
    await hers.page.goto(`${relay.url}/developers`);
    await hers.page.getByLabel("Username").fill("grace");
    await hers.page.getByLabel("Password").fill(password);
    await hers.page.getByRole("button", { name: "Log in" }).click();
    await hers.page.getByText("You may only look").waitFor();
    expect(await hers.page.getByRole("link", { name: "Users" }).count()).toBe(0);

    await press(page, "Change grace", "Change it");
    await expect.poll(() => grace.innerText()).toMatch(/manage\s+off/);
    await page.getByRole("button", { name: "Remove grace" }).click();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Remove the user" }).click();
    await grace.waitFor({ state: "detached" });
    await hers.page.reload();
    await hers.page.getByRole("heading", { name: "Log in" }).waitFor();
  });

  it("leave what is shown once above the view that follows: recovery codes, and a password", async (start) => {
    const { page, go, screen } = await start();
    const confirmed = await held(page, "PUT", "/auth/totp");
    const codes = page.getByRole("dialog", { name: "Keep these codes now" });
    const enrolled = secondFactor(screen);
    await confirmed.answered;
    await go("keys", "API keys");
    confirmed.release();
    await enrolled;
    await codes.waitFor({ state: "detached" });

    await go("users", "Users");
    await page.getByRole("button", { name: "Add a user" }).click();
    await page.getByLabel("Username").fill("grace");
    const added = await held(page, "POST", "/auth/users");
    await page.getByRole("button", { name: "Add the user" }).click();
    await added.answered;
    await go("keys", "API keys");
    added.release();
    const password = page.getByRole("dialog", { name: "The password of grace" });
    expect(await password.locator(".secret code").innerText()).toMatch(/^[\w-]{24}$/);
    await expectAccessible(page);
    await password.getByRole("button", { name: "Done" }).click();
    await password.waitFor({ state: "detached" });
    await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
  });

  it("a name that is taken and a short password are told in the dialog", async (start) => {
    const { page, go, screen } = await start();
    await secondFactor(screen);
    await go("users", "Users");
    await page.getByRole("button", { name: "Add a user" }).click();
    await fill(page, { Username: "ada", Password: "short" }, "Add the user");
    await page.getByText("must be 12 to").first().waitFor();
    await fill(page, { Password: PASSWORD }, "Add the user");
    await page.getByText("There is already a user of that name.").waitFor();
  });
});
