// Actions: what is said after each is of that one, and refusals, second clicks and clocks that disagree do no harm.
import { expect } from "vitest";
import { fill, press } from "./browser.ts";
import { alone, type Scene, stage } from "./stage.ts";

const SHOP = { description: "The shop", retry: { attempts: 1 } };

/** Fails the first request that changes something at a path. */
async function failOnce({ page }: Pick<Scene, "page">, path: string): Promise<void> {
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

stage("an action", { receiver: { otherwise: 500 } }, (it) => {
  it("that is done says nothing of another that failed before", async ({ page, go, keyId, subscribe, publish }) => {
    await subscribe("/", SHOP);
    const id = await publish("failed");
    await go(`k/${keyId}/events`, "Events");
    await failOnce({ page }, `/api-keys/${keyId}/deliveries`);
    await page.getByLabel(`Select ${id}`).check();
    await page.getByRole("button", { name: "Replay (1)" }).click();
    await page.getByText("The storage is away.").waitFor();
    await page.getByRole("button", { name: "Cancel (1)" }).click();
    await page.getByText(/deliveries are cancelled/).waitFor();
    expect(await page.getByText("The storage is away.").count()).toBe(0);
  });

  it("that is counted again says nothing of the replay that failed before", async (scene) => {
    const { page, go, keyId, subscribe, publish } = scene;
    await subscribe("/", SHOP);
    await publish("failed");
    await go(`k/${keyId}/events`, "Events");
    await press(page, "Replay failed…", "Count them first");
    const replay = page.getByRole("button", { name: "Replay 1", exact: true });
    await replay.waitFor();
    await failOnce({ page }, `/api-keys/${keyId}/replay`);
    await replay.click();
    await page.getByText("The storage is away.").waitFor();
    await page.getByLabel("Events accepted in").selectOption("the last hour");
    await page.getByRole("button", { name: "Count them first" }).click();
    await replay.waitFor();
    expect(await page.getByText("The storage is away.").count()).toBe(0);
    await replay.click();
    await page.getByText("1 delivery is pending again.").waitFor();
  });

  it("that tests says nothing of the event before when it fails", async ({ page, go, keyId, subscribe, publish }) => {
    const { id: sub } = await subscribe("/", SHOP);
    const id = await publish("failed");
    await go(`k/${keyId}/subscriptions/${sub}`, "The shop");
    await fill(page, { "Event id": id }, "Test");
    await page.getByText("Matches.").waitFor();
    await fill(page, { "Event id": "evt_not_there" }, "Test");
    await page.getByRole("alert").waitFor();
    expect(await page.getByText("Matches.").count()).toBe(0);
  });

  it("keeps the focus on its button", async ({ page, go, keyId, subscribe, publish }) => {
    await subscribe("/", SHOP);
    const id = await publish("failed");
    await go(`k/${keyId}/events`, "Events");
    await page.getByRole("link", { name: id }).waitFor();
    const button = page.getByRole("button", { name: "Export as CSV" });
    await button.focus();
    const [file] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);
    expect(file.suggestedFilename()).toBe(`${keyId}-events.csv`);
    await button.waitFor();
    await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Export as CSV");
  });

  it("is no worse for a browser that fills in a password, whose key has no name", async ({ page, go, keyId }) => {
    await go(`k/${keyId}/events`, "Events");
    await page.evaluate("dispatchEvent(new Event('keydown'))");
  });
});

const HOUR = 3_600_000;

/** Sets the clock of a page forward. */
const clockBy = (ms: number): string => `{ const now = Date.now.bind(Date); Date.now = () => now() + ${ms}; }`;

/** Answers the first request of a method and path with 429, and lets the others through. */
async function refuseOnce(
  { page }: Pick<Scene, "page">,
  method: string,
  path: string,
  seconds: number,
): Promise<() => number> {
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

alone("bad luck", (it) => {
  it("a refusal is told in the dialog that waits for it, and a dialog that is closed meanwhile sends nothing more", async (start) => {
    const { page, go, relay } = await start();
    await go("k/key_1/events", "Events");
    const asked = await refuseOnce({ page }, "POST", "/api-keys/key_1/events", 8);
    const send = async (): Promise<void> => {
      await page.getByRole("button", { name: "Publish event…" }).click();
      await page.getByRole("dialog").getByLabel("Type", { exact: true }).fill("deposit:paid");
      await page.getByRole("dialog").getByLabel("Data", { exact: true }).fill("1");
      await page.getByRole("button", { name: "Publish", exact: true }).click();
    };
    await send();
    await page
      .getByRole("dialog")
      .getByText(/It goes on by itself in \d s/)
      .waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.waitForTimeout(9_500);
    expect(asked()).toBe(1);
    expect((await relay.call("GET", "/api-keys/key_1/events")).json.data).toEqual([]);
    await send();
    await page.getByText("Accepted. No subscription wants it.").waitFor();
  });

  it("the second click of a double click does nothing more, however soon the first is answered", async (start) => {
    const { page, go, relay } = await start();
    await go("k/key_1/events", "Events");
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

  it("a browser whose clock is ahead sees the relay's time, and renews its session no more often", async (start) => {
    const { page, go, limited, relay, receiver } = await start();
    await relay.call("POST", "/api-keys/key_1/webhooks", { body: { url: receiver.url(), events: ["*"] } });
    await page.addInitScript(clockBy(HOUR));
    await relay.publish({ type: "deposit:paid", keyId: "key_1", data: 1 });
    await receiver.waitFor(1);
    await go("k/key_1/events", "Events");
    await page.getByRole("row", { name: /deposit:paid.*(just now|seconds? ago)/ }).waitFor();
    limited.length = 0;
    for (const [name, heading] of [["Attempts"], ["Subscriptions"], ["Audit"], ["Events"]]) {
      await page.getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { level: 1, name: heading ?? name }).waitFor();
      await page.getByRole("row").nth(1).waitFor();
    }
    expect(limited.filter((one) => one === "POST /auth/refresh")).toEqual([]);
  });

  it("a browser whose clock is behind counts the hours of the relay", async (start) => {
    const { page, go, relay, receiver, subscribe } = await start(
      { health: false },
      { receiver: { script: () => ({ do: "reply", status: 500 }) } },
    );
    await subscribe("/", { retry: { attempts: 1 } }, "key_1");
    await page.addInitScript(clockBy(-3 * HOUR));
    await relay.publish({ type: "deposit:paid", keyId: "key_1", data: 1 });
    await receiver.waitFor(1);
    await go("k/key_1/events", "Events");
    await page.getByRole("row", { name: /deposit:paid.*failed.*(just now|seconds? ago)/ }).waitFor();
    await page.getByRole("button", { name: "Replay failed…" }).click();
    await page.getByLabel("Events accepted in").selectOption("the last hour");
    await page.getByRole("button", { name: "Count them first" }).click();
    await page.getByText("1 delivery will be replayed").waitFor();
  });
});
