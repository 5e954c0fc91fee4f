// An operator with bad luck: refusals while a dialog is open, clicks that come twice, clocks that disagree.
import { describe, expect, it } from "vitest";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import { setUp, useBrowser, type Screen } from "./browser.ts";

const browser = useBrowser();
const HOUR = 3_600_000;

/** Sets the clock of a page forward. */
const clockBy = (ms: number): string => `{ const now = Date.now.bind(Date); Date.now = () => now() + ${ms}; }`;

/** Answers the first request of a method and path with 429, and lets the others through. */
async function refuseOnce({ page }: Screen, method: string, path: string, seconds: number): Promise<() => number> {
  let asked = 0;
  await page.route(
    (url) => url.pathname === path,
    async (route) => {
      if (route.request().method() !== method || asked++ > 0) return await route.continue();
      const json = { code: "RATE_LIMIT_EXCEEDED", detail: "Too many requests.", retryAfter: seconds };
      await route.fulfill({ status: 429, headers: { "retry-after": String(seconds) }, json });
    },
  );
  return () => asked;
}

describe.skipIf(browser.missing !== undefined)(`bad luck (${browser.missing ?? "in Chromium"})`, () => {
  it("a refusal is told in the dialog that waits for it, and a dialog that is closed meanwhile sends nothing more", async () => {
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await screen.go("k/key_1/events", "Events");
    const asked = await refuseOnce(screen, "POST", "/api-keys/key_1/events", 8);
    const publish = async (): Promise<void> => {
      await page.getByRole("button", { name: "Publish event…" }).click();
      await page.getByRole("dialog").getByLabel("Type", { exact: true }).fill("deposit:paid");
      await page.getByRole("dialog").getByLabel("Data", { exact: true }).fill("1");
      await page.getByRole("button", { name: "Publish", exact: true }).click();
    };
    await publish();
    await page
      .getByRole("dialog")
      .getByText(/It goes on by itself in \d s/)
      .waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.waitForTimeout(9_500);
    expect(asked()).toBe(1);
    expect((await relay.call("GET", "/api-keys/key_1/events")).json.data).toEqual([]);
    await publish();
    await page.getByText("Accepted. No subscription wants it.").waitFor();
  });

  it("the second click of a double click does nothing more, however soon the first is answered", async () => {
    await using relay = await startRelay();
    await using screen = await browser.open(relay);
    const { page } = screen;
    await setUp(relay, screen);
    await screen.go("k/key_1/events", "Events");
    await page.getByRole("button", { name: "Publish event…" }).click();
    await page.getByRole("dialog").getByLabel("Type", { exact: true }).fill("deposit:paid");
    await page.getByRole("dialog").getByLabel("Data", { exact: true }).fill("1");
    const button = page.getByRole("button", { name: "Publish", exact: true });
    /** The clicks of one double click, the second when the first has been answered. */
    await button.click();
    await page.getByText("Accepted. No subscription wants it.").waitFor();
    await button.hover();
    await page.mouse.down({ clickCount: 2 });
    await page.mouse.up({ clickCount: 2 });
    await page.waitForTimeout(1_000);
    const published = async () => (await relay.call("GET", "/api-keys/key_1/events")).json.data;
    expect(await published()).toHaveLength(1);
    await button.click();
    await expect.poll(published).toHaveLength(2);
  });

  it("a browser whose clock is ahead sees the relay's time, and renews its session no more often", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay();
    await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: receiver.url(), events: ["*"] } });
    await using screen = await browser.open(relay);
    const { page, limited } = screen;
    await page.addInitScript(clockBy(HOUR));
    await setUp(relay, screen);
    await relay.publish({ type: "deposit:paid", keyId: "key_1", data: 1 });
    await receiver.waitFor(1);
    await screen.go("k/key_1/events", "Events");
    await page.getByRole("row", { name: /deposit:paid.*(just now|seconds? ago)/ }).waitFor();
    limited.length = 0;
    for (const [name, heading] of [["Attempts"], ["Subscriptions"], ["Audit"], ["Events"]]) {
      await page.getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { level: 1, name: heading ?? name }).waitFor();
      await page.getByRole("row").nth(1).waitFor();
    }
    expect(limited.filter((one) => one === "POST /auth/refresh")).toEqual([]);
  });

  it("a browser whose clock is behind counts the hours of the relay", async () => {
    await using receiver = await startReceiver({ script: () => ({ do: "reply", status: 500 }) });
    await using relay = await startRelay({ health: false });
    const body = { url: receiver.url(), events: ["*"], retry: { attempts: 1 } };
    await relay.call("POST", "/api-keys/key_1/webhooks", { body });
    await using screen = await browser.open(relay);
    const { page } = screen;
    await page.addInitScript(clockBy(-3 * HOUR));
    await setUp(relay, screen);
    await relay.publish({ type: "deposit:paid", keyId: "key_1", data: 1 });
    await receiver.waitFor(1);
    await screen.go("k/key_1/events", "Events");
    await page.getByRole("row", { name: /deposit:paid.*failed.*(just now|seconds? ago)/ }).waitFor();
    await page.getByRole("button", { name: "Replay failed…" }).click();
    await page.getByLabel("Events accepted in").selectOption("the last hour");
    await page.getByRole("button", { name: "Count them first" }).click();
    await page.getByText("1 delivery will be replayed").waitFor();
  });
});
