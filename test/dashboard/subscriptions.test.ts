// Subscriptions, as people make, change, try and end them in a real browser.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { receiversOf } from "../../dashboard/build.ts";
import { verifyHex } from "../../core/signing/verify.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import { transformSpawner } from "../support/transform-spawner.ts";
import { expectAccessible, fill, picture, press } from "./browser.ts";
import { stage } from "./stage.ts";

const receivers = receiversOf(readFileSync(join(import.meta.dirname, "../../docs/verify.md"), "utf8"));
const folder = testFolder();
const events = {
  "deposit:paid": {
    description: "A deposit has arrived.",
    schema: { type: "object", required: ["amount"] },
    example: { amount: "12.50" },
  },
  "withdraw:sent": {},
};

/** A relay with event types, and with a transform that throws. */
async function start() {
  const broken = 'broken: () => { throw new Error("no amount"); }';
  writeFileSync(join(folder, "relay.config.ts"), `export default { transforms: { ${broken} } };`);
  const config = { events, validate: "off" as const, transforms: { broken: () => ({}) } };
  return startRelay(config, undefined, undefined, await transformSpawner(folder));
}

stage("subscriptions", { start }, (it) => {
  it("are created with offered names and patterns; the secret is shown once, and is the one that signs", async (scene) => {
    const { page, go, relay, receiver, keyId } = scene;
    await go(`k/${keyId}/subscriptions`, "Subscriptions");
    await page.getByRole("heading", { name: "No subscription yet" }).waitFor();
    await expectAccessible(page, "no-subscription");
    await page.getByRole("button", { name: "Create subscription" }).first().click();
    await fill(page, { URL: "http://127.0.0.1/hook" }, "deposit:paid");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByText("must start with https://").first().waitFor();
    await fill(page, { URL: receiver.url("/made"), "Add an event name or pattern": "with draw:*, bad!" }, "Add");
    await page.getByText("“bad!” is no event name").waitFor();
    await page.getByLabel("Add an event name or pattern").fill("withdraw:*");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "withdraw:*: remove" }).waitFor();
    await fill(page, { Description: "The shop" }, "Add a header");
    await fill(page, { "Name of header 1": "X-Shop-Token", "Value of header 1": "a value that nobody sees" });
    await page.getByText("Rate limit, time-out and retries").click();
    await page.getByLabel("Deliveries a second, at most").fill("20");
    await expectAccessible(page, "create-subscription", false);
    await page.getByRole("button", { name: "Create", exact: true }).click();

    await page.getByRole("heading", { name: "Keep this secret now" }).waitFor();
    await expectAccessible(page, "secret", false);
    const secret = await page.locator(".secret code").innerText();
    // The code of the guide's receivers is beside it, and is the very code that the guide's tests run.
    await page.getByRole("dialog").getByText("Code to verify a delivery").click();
    expect(receivers.length).toBeGreaterThanOrEqual(6);
    for (const { language, code } of receivers) {
      await page.getByLabel("Language").selectOption(language);
      await page.getByRole("button", { name: "Copy the code" }).click();
      await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toBe(code);
    }
    await expectAccessible(page, "verify-code", false);
    await page.getByRole("dialog").getByText("Code to verify a delivery").click();
    await page.getByRole("button", { name: "Copy the secret" }).click();
    await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toBe(secret);
    // It cannot be closed by accident, neither by Escape nor by its button.
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    expect(await page.getByRole("button", { name: "Done" }).isDisabled()).toBe(true);
    await page.getByLabel("I have stored it").check();
    await page.getByRole("button", { name: "Done" }).click();
    // The subscription is open behind it, with the test event first.
    await page.getByRole("heading", { level: 1, name: "The shop" }).waitFor();
    await page.getByRole("button", { name: "Send a test event" }).waitFor();
    expect(await page.content()).not.toContain("whsec_");

    const before = receiver.requests.length;
    await relay.publish({ type: "deposit:paid", keyId, data: { amount: 1 } });
    await receiver.waitFor(before + 1);
    const got = receiver.requests[before]!;
    expect(verifyHex(got.body, got.headers, secret)).toBe(true);
    expect(got.headers["x-shop-token"]).toBe("a value that nobody sees");
  });

  it("show their health at a glance, also why one is disabled", async (scene) => {
    const { page, go, relay, receiver, keyId, subscribe } = scene;
    await subscribe("/good");
    const gone = await subscribe("/gone", { description: "Gone for good" });
    receiver.answer(({ path }) => (path === "/gone" ? 410 : 200));
    const before = receiver.requests.length;
    await relay.publish({ type: "deposit:paid", keyId, data: 1 });
    await receiver.waitFor(before + 2);
    await go(`k/${keyId}/subscriptions`, "Subscriptions");
    await page.getByRole("row", { name: /good.*healthy.*100 %.*delivered/ }).waitFor();
    await page.getByRole("row", { name: /Gone for good.*disabled.*410 Gone.*0.0 %/ }).waitFor();
    await expectAccessible(page, "subscriptions");
    await go(`k/${keyId}/subscriptions/${gone.id}`, "Gone for good");
    await page.getByText("Nothing is sent while it is disabled.").waitFor();
    receiver.answer([], 200);
    await press(page, "Enable", "Disable…");
    const asked = page.getByRole("dialog", { name: "Disable this subscription?" });
    await asked.getByText("No delivery is pending now. Nothing is sent while it is disabled").waitFor();
    await expectAccessible(page);
    await asked.getByRole("button", { name: "Disable it" }).click();
    await page.getByRole("button", { name: "Enable" }).waitFor();
    const shown = await relay.call("GET", `/api-keys/${keyId}/webhooks/${gone.id}`);
    expect(shown.json.data.status).toBe("disabled");
  });

  it("keep their numbers when what is typed is none", async ({ page, go, relay, keyId, subscribe }) => {
    const { id } = await subscribe("/numbers", { description: "Numbers", timeoutMs: 5_000 });
    await go(`k/${keyId}/subscriptions/${id}`, "Numbers");
    await page.getByRole("button", { name: "Edit" }).click();
    await fill(page, { "Time-out in seconds": "2,5" }, "Save");
    await page.getByText("“2,5” is no number").or(page.getByText("Saved")).waitFor();
    const stored = async () => (await relay.call("GET", `/api-keys/${keyId}/webhooks/${id}`)).json.data.timeoutMs;
    expect(await stored()).toBe(5_000);
    await fill(page, { "Time-out in seconds": "2.5" }, "Save");
    await expect.poll(stored).toBe(2_500);
  });

  it("are filtered; the page says of a real event why it matches or does not, there and on the event's own page", async (scene) => {
    const { page, go, relay, keyId, subscribe } = scene;
    const { id } = await subscribe("/filtered", { description: "Filtered" });
    await go(`k/${keyId}/subscriptions/${id}`, "Filtered");
    await page.getByRole("button", { name: "Edit" }).click();
    const field = page.getByRole("dialog").getByLabel("Filter");
    await field.fill("currency = EUR");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("The filter is not JSON.").waitFor();
    await field.fill('{"path": "body.currency", "equals": "EUR"}');
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("must be type, or begin with data").first().waitFor();
    await field.fill('{"path": "data.currency", "equals": "EUR"}');
    await expectAccessible(page);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("definition").filter({ hasText: '"equals": "EUR"' }).waitFor();

    const published = await relay.publish({ type: "deposit:paid", keyId, data: { currency: "USD" } });
    expect(published.json.data.deliveries).toBe(0);
    await page.getByRole("button", { name: "Offer the newest events" }).click();
    await page.getByRole("group", { name: "Newest events" }).getByRole("button").first().waitFor();
    await page.getByRole("button", { name: "Test", exact: true }).click();
    await page.getByText("Its event names match, the filter does not.").waitFor();
    await page.getByRole("row", { name: /data\.currency.*no.*"USD".*yes/ }).waitFor();
    await expectAccessible(page, "filter-test");
    await fill(page, { "Filter to test": '{"path": "data.currency", "in": ["EUR", "USD"]}' }, "Test");
    await page.getByText("Its event names and the filter match.").waitFor();

    await go(`k/${keyId}/events/${published.json.data.id}`, "deposit:paid");
    await page.getByLabel("Subscription", { exact: true }).selectOption({ label: "Filtered" });
    await page.getByRole("button", { name: "Does it match now?" }).click();
    await page.getByText("Its event names match, the filter does not.").waitFor();
    await expectAccessible(page);

    await go(`k/${keyId}/subscriptions/${id}`, "Filtered");
    await page.getByText("1 by the filter").waitFor();
    await page.getByRole("button", { name: "test it on an event" }).click();
    await page.locator("[aria-labelledby=filter-test] :focus").waitFor();
    await expectAccessible(page);
  });

  it("are filtered by what is chosen of an example, and tell of the types and of a transform before they are saved", async (scene) => {
    const { page, go, relay, keyId, subscribe, publish } = scene;
    const { id } = await subscribe("/chosen", { description: "Chosen" });
    await publish();
    await go(`k/${keyId}/subscriptions/${id}`, "Chosen");
    await page.getByRole("button", { name: "Edit" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("group", { name: "deposit:" }).getByText("A deposit has arrived.").waitFor();
    await press(page, "Build a condition…");
    await dialog.getByLabel("Field").selectOption('data.amount ("12.50")');
    await fill(page, { Value: "5" }, "Add the condition");
    // The example has a text there.
    await expect
      .poll(async () => JSON.parse(await dialog.getByLabel("Filter").inputValue()))
      .toEqual({ path: "data.amount", equals: "5" });
    await dialog.getByLabel("Comparison").selectOption("begins with");
    await fill(page, { Value: "5." }, "Add the condition");
    const filter = {
      and: [
        { path: "data.amount", equals: "5" },
        { path: "data.amount", prefix: "5." },
      ],
    };
    await dialog.getByLabel("Transform").selectOption("broken");
    await press(page, "Show its result on the newest event");
    await dialog.getByText("broken threw Error: no amount").waitFor({ timeout: 60_000 });
    await dialog.getByLabel("Transform").selectOption("");
    await expectAccessible(page, "filter-builder", false);
    await page.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    expect((await relay.call("GET", `/api-keys/${keyId}/webhooks/${id}`)).json.data.filter).toEqual(filter);
  });

  it("begin with three steps to copy, where there is none yet", async ({ page, go, open, keyId }) => {
    await go(`k/${keyId}/overview`, "Overview");
    const steps = page.getByRole("region", { name: "Three steps to the first delivery" }).getByRole("listitem");
    await expect.poll(() => steps.count()).toBe(3);
    await page.getByRole("button", { name: "Copy the command: Publish, and look" }).click();
    await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toContain(`--key ${keyId} --data '{`);
    await expectAccessible(page, "first-steps");
    const phone = await open({ width: 390, scheme: "dark" });
    await phone.go(`k/${keyId}/overview`, "Overview");
    await phone.page.getByText("Three steps to the first delivery").waitFor();
    await expectAccessible(phone.page, "first-steps-390-dark");
  });

  it("say how many of them are not listed", async ({ page, go, keyId, subscribe }) => {
    await subscribe("/listed", { description: "Listed" });
    await page.route("**/stats?*", async (route) => {
      const answer = await route.fetch();
      const { data, meta } = (await answer.json()) as { data: object; meta: object };
      await route.fulfill({ response: answer, json: { data: { ...data, subscriptionsLeft: 1_007 }, meta } });
    });
    await go(`k/${keyId}/subscriptions`, "Subscriptions");
    await page.getByText("1,007 more subscriptions are not listed").waitFor();
  });

  it("name a transform of the config; an attempt that failed there says why", async (scene) => {
    const { page, go, relay, keyId, subscribe } = scene;
    const { id } = await subscribe("/transformed", { description: "Transformed" });
    await go(`k/${keyId}/subscriptions/${id}`, "Transformed");
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByRole("dialog").getByLabel("Transform").selectOption("broken");
    await expectAccessible(page);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog").getByLabel("Transform").waitFor({ state: "detached" });
    await page.getByText("broken", { exact: true }).waitFor();
    await relay.publish({ type: "deposit:paid", keyId, data: 1 });
    await page.getByRole("button", { name: "Offer events to transform" }).click();
    await page.getByRole("group", { name: "Newest events to transform" }).getByRole("button").first().waitFor();
    await page.getByRole("button", { name: "Run the transform" }).click();
    await page.getByRole("status").getByText("broken threw Error: no amount").waitFor({ timeout: 60_000 });
    await page.getByRole("button", { name: "Send a test event" }).click();
    await page.locator(".timeline").getByText("broken threw Error: no amount").waitFor({ timeout: 60_000 });
    await page.getByText("failed · the transform failed").waitFor();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByRole("dialog").getByLabel("Transform").selectOption("");
    await page.getByRole("button", { name: "Save" }).click();
    // The form lists the name too, until it is gone.
    await page.getByRole("dialog").getByLabel("Transform").waitFor({ state: "detached" });
    await page.getByText("broken", { exact: true }).waitFor({ state: "detached" });
    expect((await relay.call("GET", `/api-keys/${keyId}/webhooks/${id}`)).json.data).not.toHaveProperty("transform");
  });

  it("are ordered; the page shows what a failed delivery holds up, and skips it", async (scene) => {
    const { page, go, relay, keyId, subscribe } = scene;
    await using own = await startReceiver({ script: [500] });
    const retry = { attempts: 1 };
    const { id } = await subscribe("", { url: own.url(), description: "In order", retry });
    await go(`k/${keyId}/subscriptions/${id}`, "In order");
    await page.getByRole("button", { name: "Edit" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Order").selectOption("hold");
    await dialog.getByLabel("In order for each").fill("account");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("must be type, or begin with data").first().waitFor();
    await dialog.getByLabel("In order for each").fill("data.account");
    await expectAccessible(page);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("one after another for each data.account; a failed one holds up those behind it").waitFor();

    for (const n of [1, 2]) await relay.publish({ type: "deposit:paid", keyId, data: { account: "a", n } });
    await own.waitFor(1);
    await expect
      .poll(async () => (await relay.call("GET", `/api-keys/${keyId}/webhooks/${id}/order`)).json.data.held)
      .toHaveLength(1);
    // The page is open meanwhile, and hears of it.
    await page.getByText("1 waiting for their turn.").waitFor();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Skip it" }).click();
    await page.getByText("0 waiting for their turn.").waitFor();
    await own.waitFor(2);
  });

  it("are edited; what is left alone stays, stored header values too, and moving the origin warns", async (scene) => {
    const { page, go, relay, receiver, keyId, subscribe } = scene;
    const headers = { "X-Token": "stored value", "X-Old": "to be removed" };
    const { id } = await subscribe("/before", { description: "Before", headers, timeoutMs: 5_000 });
    await go(`k/${keyId}/subscriptions/${id}`, "Before");
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("URL").fill("https://elsewhere.example.com/hook");
    await page.getByText("the stored header values are dropped").waitFor();
    await fill(page, { URL: receiver.url("/after"), Description: "After" }, "Remove header 2");
    await fill(page, { "Time-out in seconds": "", "Attempts in all": "2" });
    await picture(page, "edit-subscription", false);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { level: 1, name: "After" }).waitFor();
    const { data } = (await relay.call("GET", `/api-keys/${keyId}/webhooks/${id}`)).json;
    expect(data).toMatchObject({
      url: receiver.url("/after"),
      description: "After",
      headers: { "X-Token": null },
      retry: { attempts: 2, firstDelayMs: 20 },
    });
    expect(data.timeoutMs).toBeUndefined();
    const before = receiver.requests.length;
    await relay.publish({ type: "deposit:paid", keyId, data: 1 });
    await receiver.waitFor(before + 1);
    expect(receiver.requests[before]?.headers).toMatchObject({ "x-token": "stored value" });
    expect(receiver.requests[before]?.headers["x-old"]).toBeUndefined();
  });

  it("are tried with a test event, whose attempt is shown", async ({ page, go, receiver, keyId, subscribe }) => {
    const { id } = await subscribe("/tried", { description: "Tried" });
    receiver.answer([{ do: "reply", status: 503, body: "not <b>now</b>" }], 200);
    await go(`k/${keyId}/subscriptions/${id}`, "Tried");
    await page.getByRole("button", { name: "Send a test event" }).click();
    await page.getByText("failed · 503").waitFor();
    await page.getByText("not <b>now</b>").waitFor();
    await page.getByRole("button", { name: "Send a test event" }).click();
    await page.getByText("delivered · 200").waitFor();
    await expectAccessible(page, "subscription");
    const type = page.getByLabel("Type of the test event");
    await type.focus();
    await type.locator("option", { hasText: "deposit:paid" }).waitFor({ state: "attached" });
    expect(await type.locator("option").allTextContents()).toEqual(["relay:ping", "deposit:paid"]);
    await type.selectOption("deposit:paid");
    await page.getByText("A deposit has arrived.").waitFor();
    await page.getByText("Schema", { exact: true }).click();
    await page.getByText('"required"').waitFor();
    const before = receiver.requests.length;
    await page.getByRole("button", { name: "Send a test event" }).click();
    await receiver.waitFor(before + 1);
    expect(JSON.parse(String(receiver.requests[before]?.body))).toMatchObject({
      type: "deposit:paid",
      data: { amount: "12.50" },
    });
    await expectAccessible(page);
  });

  it("are deleted only when their name is typed, and told apart by their URL before", async (scene) => {
    const { page, go, relay, receiver, keyId, subscribe } = scene;
    await subscribe("/same?of=the-other", { description: "The other one" });
    const { id } = await subscribe("/same?of=this-one", { description: "The one to <b>delete</b>" });
    await go(`k/${keyId}/subscriptions/${id}`, "The one to <b>delete</b>");
    await page.getByRole("button", { name: "Delete" }).click();
    const told = page.getByRole("dialog").getByRole("definition");
    expect(await told.allTextContents()).toEqual([receiver.url("/same?of=this-one"), "The one to <b>delete</b>", id]);
    const name = new URL(receiver.origin).host;
    await page.getByLabel(`Type ${name} to confirm`).fill("127.0.0.1");
    expect(await page.getByRole("button", { name: "Delete for ever" }).isDisabled()).toBe(true);
    await expectAccessible(page, "delete-subscription", false);
    await page.getByLabel(`Type ${name} to confirm`).fill(name);
    await page.getByRole("button", { name: "Delete for ever" }).click();
    await page.getByRole("heading", { level: 1, name: "Subscriptions" }).waitFor();
    expect((await relay.call("GET", `/api-keys/${keyId}/webhooks/${id}`)).status).toBe(404);
  });

  it("can be reached and made by keyboard alone", async ({ page, go, relay, receiver, keyId }) => {
    await go(`k/${keyId}/overview`, "Overview");
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to the content");
    await page.keyboard.press("Enter");
    expect(await page.evaluate("document.activeElement.id")).toBe("main");
    await page.reload();
    await page.getByRole("link", { name: "Create the first one" }).waitFor();
    await page.getByRole("link", { name: "Create the first one" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Create a subscription" }).waitFor();
    // The focus is in the first field, and stays inside.
    expect(await page.evaluate("document.activeElement.value")).toBe("https://");
    await page.keyboard.press("End");
    await page.keyboard.type(receiver.url("/typed").slice("https://".length));
    await page.keyboard.press("Tab");
    await page.keyboard.press("Space");
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      expect(
        await page.evaluate(
          "document.activeElement === document.body || document.activeElement.closest('dialog') !== null",
        ),
      ).toBe(true);
    }
    await page.getByRole("button", { name: "Create", exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Keep this secret now" }).waitFor();
    const { data } = (await relay.call("GET", `/api-keys/${keyId}/webhooks`)).json;
    expect(data[0]).toMatchObject({ url: receiver.url("/typed"), events: ["deposit:paid"] });
  });
});
