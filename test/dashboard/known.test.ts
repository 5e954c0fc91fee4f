// What the views of a key know of its subscriptions, while others change them and answers come late.
import { expect, describe, it } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { useLoggedIn } from "./browser.ts";

let relay: TestRelay;
let receiver: Receiver;
const browser = useLoggedIn(async (kept) => {
  receiver = kept.use(await startReceiver());
  relay = kept.use(await startRelay());
  return relay;
});

async function subscribed(keyId: string): Promise<string> {
  const body = { url: receiver.url("/"), events: ["*"], description: `Receiver of ${keyId}` };
  const made = await relay.call("POST", `/api-keys/${keyId}/webhooks`, { body });
  expect(made.status, made.text).toBe(201);
  return made.json.data.id;
}

describe.skipIf(browser.missing !== undefined)(`what is known (${browser.missing ?? "in Chromium"})`, () => {
  it("of one key takes no form away that another key shows by then", async () => {
    await subscribed("key_1");
    const id = await subscribed("key_2");
    await using screen = await browser.open();
    const { page } = screen;
    const [asked, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await screen.go("k/key_1/audit", "Audit");
    await page.getByText("Receiver of key_1").first().waitFor();
    await page.route("**/api-keys/key_1/stats*", async (route) => {
      const response = await route.fetch();
      asked.resolve();
      await late.promise;
      await route.fulfill({ response });
    });
    await page.keyboard.press("Control+k");
    await asked.promise;
    await page.keyboard.press("Escape");
    await screen.go(`k/key_2/subscriptions/${id}/deliveries`, "Receiver of key_2");
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Description").fill("Typed with care");
    const answered = page.waitForResponse((response) => response.url().includes("/api-keys/key_1/stats"));
    late.resolve();
    await (await answered).finished();
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))");
    expect(await page.getByLabel("Description").inputValue()).toBe("Typed with care");
  });

  it("follows what others change", async () => {
    const id = await subscribed("key_3");
    await using screen = await browser.open();
    const { page } = screen;
    await screen.go("k/key_3/audit", "Audit");
    await page.getByText("live", { exact: true }).waitFor();
    await screen.go(`k/key_3/subscriptions/${id}/deliveries`, "Receiver of key_3");
    await page.getByRole("button", { name: "Disable…" }).waitFor();
    const body = { status: "disabled", description: "Called otherwise" };
    expect((await relay.call("PATCH", `/api-keys/key_3/webhooks/${id}`, { body })).status).toBe(200);
    await page.getByRole("heading", { level: 1, name: "Called otherwise" }).waitFor();
    await page.getByRole("button", { name: "Enable" }).waitFor();
  });
});
