// The reference and the guides at `/docs`, in the page's own looks, with one search over both.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { judge, picture } from "../browser.ts";
import { stage } from "../stage.ts";

const GUIDES = readdirSync(join(import.meta.dirname, "../../../docs")).filter((name) => name.endsWith(".md"));

stage("the reference and the guides", {}, (it) => {
  it("are found by one search, and lead to each other and to the dashboard", async ({
    page,
    go,
    relay,
    complaints,
  }) => {
    await go("k/key_1/overview", "Overview");
    await page.getByRole("link", { name: "Reference", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Publish" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/docs");
    await page.getByLabel("Search").fill("rotate the secret");
    await page.getByText(/^\d+ places$/).waitFor();
    await page.locator("main").getByRole("link").first().click();
    await page.getByRole("heading", { name: "Found" }).waitFor({ state: "detached" });
    expect(await page.getByLabel("Search").inputValue()).toBe("");
    await page.getByLabel("Search").fill("circuit breaker");
    await page.locator("main").getByRole("link", { name: "When a receiver is down" }).click();
    await page.getByRole("heading", { level: 2, name: "When a receiver is down" }).waitFor();
    await page.getByRole("link", { name: "Dashboard", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: /^(?:API keys|Overview)$/ }).waitFor();
    // Without a login.
    const plain = await relay.call("GET", "/docs", { token: null });
    expect([plain.status, plain.headers["content-security-policy"]]).toEqual([
      200,
      expect.stringMatching(/^default-src 'none'; style-src 'self'/),
    ]);
    expect(complaints).toEqual([]);
  });

  it("tell of every operation what it takes and answers, and of the fields in its fields", async ({ page, relay }) => {
    await page.goto(`${relay.url}/docs`);
    const { paths } = (await relay.call("GET", "/openapi.json", { token: null })).json;
    const operations = Object.values(paths).flatMap((item) => Object.values(item as object));
    const contents = page.getByRole("navigation", { name: "Contents" });
    await expect.poll(() => contents.getByRole("link").count()).toBe(operations.length + GUIDES.length);
    await contents.getByRole("link", { name: "Create a subscription" }).click();
    await page.getByRole("heading", { level: 1, name: "Create a subscription" }).waitFor();
    await page.getByText("POST /api-keys/{keyId}/webhooks", { exact: true }).waitFor();
    await page.getByRole("region", { name: "Body" }).getByText("events", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Show the fields of Body.retry" }).click();
    await page.getByRole("region", { name: "Body.retry" }).getByText("attempts", { exact: true }).first().waitFor();
  });

  for (const width of [1280, 390])
    it(`are for everybody at ${width} px, light and dark`, async ({ open, relay }) => {
      const { page, complaints } = await open({ width, scheme: "light" });
      const views = [
        ...GUIDES.map((name) => `guide/${name.slice(0, -3)}`),
        "operation/createSubscription",
        "?q=secret",
      ];
      for (const view of views) {
        await page.goto(`${relay.url}/docs#/${view}`);
        await page.getByRole("heading", { level: 1 }).waitFor();
        await judge(page).catch((error: unknown) => {
          throw new Error(view, { cause: error });
        });
      }
      await page.emulateMedia({ colorScheme: "dark" });
      await judge(page, ["color-contrast"]);
      await page.goto(`${relay.url}/docs#/guide/filters`);
      await page.getByRole("heading", { level: 1, name: "Filters" }).waitFor();
      await judge(page, ["color-contrast"]);
      await picture(page, `docs-guide-${width}-dark`, false);
      await page.emulateMedia({ colorScheme: "light" });
      await page.goto(`${relay.url}/docs#/operation/createSubscription`);
      await page.getByRole("heading", { level: 1, name: "Create a subscription" }).waitFor();
      await picture(page, `docs-operation-${width}-light`, false);
      expect(complaints).toEqual([]);
    }, 240_000);
});
