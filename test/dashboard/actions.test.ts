// Buttons that do something: what is said after each is of that one, and whoever uses the keyboard stays where they were.
import { describe, expect, it } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { useLoggedIn, type Screen } from "./browser.ts";

let relay: TestRelay;
let receiver: Receiver;
const browser = useLoggedIn(async (kept) => {
  receiver = kept.use(await startReceiver({ script: [500, 500, 500, 500, 500] }));
  relay = kept.use(await startRelay());
  return relay;
});
const { open } = browser;

/** A subscription whose receiver refuses, and an event whose delivery to it has failed. */
async function failed(keyId: string): Promise<{ readonly sub: string; readonly id: string }> {
  const body = { url: receiver.url("/"), events: ["*"], description: "The shop", retry: { attempts: 1 } };
  const made = await relay.call("POST", `/api-keys/${keyId}/webhooks`, { body });
  expect(made.status, made.text).toBe(201);
  const { id } = (await relay.publish({ type: "deposit:paid", keyId, data: 1 })).json.data;
  const status = async () => (await relay.call("GET", `/api-keys/${keyId}/events/${id}`)).json.data.status;
  await expect.poll(status).toBe("failed");
  return { sub: made.json.data.id, id };
}

/** Fails the first request that changes something at a path. */
async function failOnce({ page }: Screen, path: string): Promise<void> {
  let first = true;
  await page.route(
    (url) => url.pathname === path,
    async (route) => {
      if (!first || route.request().method() === "GET") return await route.continue();
      first = false;
      await route.fulfill({ status: 503, json: { code: "STORAGE_UNAVAILABLE", detail: "The storage is away." } });
    },
  );
}

describe.skipIf(browser.missing !== undefined)(`an action (${browser.missing ?? "in Chromium"})`, () => {
  it("that is done says nothing of another that failed before", async () => {
    const { id } = await failed("key_1");
    await using screen = await open();
    const { page } = screen;
    await screen.go("k/key_1/events", "Events");
    await failOnce(screen, "/api-keys/key_1/deliveries");
    await page.getByLabel(`Select ${id}`).check();
    await page.getByRole("button", { name: "Replay (1)" }).click();
    await page.getByText("The storage is away.").waitFor();
    await page.getByRole("button", { name: "Cancel (1)" }).click();
    await page.getByText(/deliveries are cancelled/).waitFor();
    expect(await page.getByText("The storage is away.").count()).toBe(0);
  });

  it("that is counted again says nothing of the replay that failed before", async () => {
    await failed("key_2");
    await using screen = await open();
    const { page } = screen;
    await screen.go("k/key_2/events", "Events");
    await page.getByRole("button", { name: "Replay failed…" }).click();
    await page.getByRole("button", { name: "Count them first" }).click();
    const replay = page.getByRole("button", { name: "Replay 1", exact: true });
    await replay.waitFor();
    await failOnce(screen, "/api-keys/key_2/replay");
    await replay.click();
    await page.getByText("The storage is away.").waitFor();
    await page.getByLabel("Events accepted in").selectOption("the last hour");
    await page.getByRole("button", { name: "Count them first" }).click();
    await replay.waitFor();
    expect(await page.getByText("The storage is away.").count()).toBe(0);
    await replay.click();
    await page.getByText("1 delivery is pending again.").waitFor();
  });

  it("that tests says nothing of the event before when it fails", async () => {
    const { sub, id } = await failed("key_3");
    await using screen = await open();
    const { page } = screen;
    await screen.go(`k/key_3/subscriptions/${sub}`, "The shop");
    await page.getByLabel("Event id").fill(id);
    await page.getByRole("button", { name: "Test", exact: true }).click();
    await page.getByText("Matches.").waitFor();
    await page.getByLabel("Event id").fill("evt_not_there");
    await page.getByRole("button", { name: "Test", exact: true }).click();
    await page.getByRole("alert").waitFor();
    expect(await page.getByText("Matches.").count()).toBe(0);
  });

  it("keeps the focus on its button", async () => {
    const { id } = await failed("key_4");
    await using screen = await open();
    const { page } = screen;
    await screen.go("k/key_4/events", "Events");
    await page.getByRole("link", { name: id }).waitFor();
    const button = page.getByRole("button", { name: "Export as CSV" });
    await button.focus();
    const [file] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);
    expect(file.suggestedFilename()).toBe("key_4-events.csv");
    await button.waitFor();
    await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Export as CSV");
  });

  it("is no worse for a browser that fills in a password, whose key has no name", async () => {
    await using screen = await open();
    const { page, complaints } = screen;
    await screen.go("k/key_5/events", "Events");
    await page.evaluate("dispatchEvent(new Event('keydown'))");
    expect(complaints).toEqual([]);
  });
});
