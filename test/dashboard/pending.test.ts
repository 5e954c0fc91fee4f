// Deliveries that wait: tried now, cancelled and selected on the page; and the attempts of all events.
import { expect } from "vitest";
import { expectAccessible, fill } from "./browser.ts";
import { type Scene, stage } from "./stage.ts";

const RETRY = { attempts: 5, firstDelayMs: 3_600_000, factor: 1, maxDelayMs: 3_600_000 };

/** A subscription, and events whose first attempt has failed. */
async function waiting({ relay, receiver, keyId, subscribe, publish }: Scene, count: number) {
  receiver.answer([], 503);
  const { id: sub } = await subscribe("/later", { retry: RETRY, description: "Later" });
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const id = await publish(undefined, { type: "a:b" });
    ids.push(id);
    await expect
      .poll(async () => (await relay.call("GET", `/api-keys/${keyId}/events/${id}`)).json.data.deliveries[0].attempts)
      .toHaveLength(1);
  }
  return { ids, sub };
}

stage("pending deliveries", { receiver: { otherwise: 503 } }, (it) => {
  it("are tried now, cancelled, and replayed after all", async (scene) => {
    const { page, go, receiver, keyId } = scene;
    const { ids } = await waiting(scene, 1);
    await go(`k/${keyId}/events/${ids[0]}`, "a:b");
    await page.getByText("next attempt in").waitFor();
    await page.getByRole("button", { name: "Try now" }).click();
    // Two attempts ended the same, so the first is folded.
    await page.getByText("Attempt 1 ended the same: 503").waitFor();
    await page.getByText("Attempt 2", { exact: true }).waitFor();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Cancel it" }).click();
    await page.getByText("cancelled · somebody cancelled it").waitFor();
    receiver.answer([], 200);
    await page.getByRole("button", { name: "Replay", exact: true }).click();
    await page.getByText("delivered · 200").waitFor();
  });

  it("are not said to be due before the page knows whether the endpoint is down", async (scene) => {
    const { page, go, keyId } = scene;
    const { ids } = await waiting(scene, 1);
    // A delivery that is due while its endpoint is down, which the page learns later.
    const known = Promise.withResolvers<void>();
    await page.route(
      (url) => url.pathname === `/api-keys/${keyId}/events/${ids[0]}`,
      async (route) => {
        const response = await route.fetch();
        const json = await response.json();
        json.data.deliveries[0].nextAttemptAt = new Date(Date.now() - 1_000).toISOString();
        await route.fulfill({ response, json });
      },
    );
    await page.route(
      (url) => url.pathname === `/api-keys/${keyId}/stats`,
      async (route) => {
        await known.promise;
        const response = await route.fetch();
        const json = await response.json();
        json.data.subscriptions[0].restsUntil = new Date(Date.now() + 600_000).toISOString();
        await route.fulfill({ response, json });
      },
    );
    await go(`k/${keyId}/events/${ids[0]}`, "a:b");
    await page.getByRole("button", { name: "Try now" }).waitFor();
    expect(await page.getByText("due now").count()).toBe(0);
    known.resolve();
    await page.getByText(/the endpoint is down: next try in (?:9|10) min/).waitFor();
    expect(await page.getByText("due now").count()).toBe(0);
  });

  it("are selected, and each says what became of it", async (scene) => {
    const { page, go, receiver, keyId } = scene;
    const { ids, sub } = await waiting(scene, 3);
    await go(`k/${keyId}/events`, "Events");
    for (const id of ids.slice(0, 2)) await page.getByLabel(`Select ${id}`).check();
    await page.getByRole("button", { name: "Cancel (2)" }).click();
    await page.getByText("2 deliveries are cancelled.").waitFor();
    await go(`k/${keyId}/subscriptions/${sub}/deliveries`, /^(?:Later|Deliveries)$/);
    await page.getByLabel("Select all shown").check();
    await expectAccessible(page);
    await page.getByRole("button", { name: "Cancel (3)" }).click();
    await page.getByText("One delivery is cancelled.").waitFor();
    await page.getByText("The delivery has ended: it is cancelled.").first().waitFor();
    receiver.answer([], 200);
    await page.getByLabel("Select all shown").check();
    await page.getByRole("button", { name: "Replay (3)" }).click();
    await page.getByText("3 deliveries are replayed.").waitFor();
    await receiver.waitFor(6);
  });

  it("are found among the attempts of all events, by their answer", async (scene) => {
    const { page, go, keyId } = scene;
    const { ids } = await waiting(scene, 2);
    await go(`k/${keyId}/attempts?code=503`, "Attempts");
    const rows = page.getByRole("region", { name: "Attempts" }).locator("tbody tr");
    await expect.poll(() => rows.count()).toBe(2);
    await page.getByRole("link", { name: "Later" }).first().waitFor();
    await expectAccessible(page);
    await fill(page, { "Answered with": "200" }, "Search");
    await page.getByRole("heading", { name: "No attempt here" }).waitFor();
    await go(`k/${keyId}/attempts`, "Attempts");
    await page.getByRole("link", { name: ids[0] as string }).click();
    await page.getByRole("heading", { level: 1, name: "a:b" }).waitFor();
  });

  it("show their data laid out, as no parser would change it, and byte for byte", async (scene) => {
    const { page, go, keyId, publish } = scene;
    const data = '{"n":1.50,"big":12345678901234567890,"e":{},"l":[],"s":"a, {b}: \\"c\\"","m":[1,{"x":null}]}';
    const id = await publish(undefined, { type: "a:b", data });
    await go(`k/${keyId}/events/${id}`, "a:b");
    const shown = page.getByLabel("The data", { exact: true });
    expect(await shown.textContent()).toBe(
      '{\n  "n": 1.50,\n  "big": 12345678901234567890,\n  "e": {},\n  "l": [],\n  "s": "a, {b}: \\"c\\"",\n  "m": [\n    1,\n    {\n      "x": null\n    }\n  ]\n}',
    );
    await page.getByRole("button", { name: "Raw" }).click();
    expect(await shown.textContent()).toBe(data);
  });
});
