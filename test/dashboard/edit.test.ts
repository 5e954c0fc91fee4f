// The edit form of a subscription, while somebody else changes the same subscription.
import { expect } from "vitest";
import { expectAccessible, fill } from "./browser.ts";
import { type Scene, stage } from "./stage.ts";

/** Opens the edit form of a subscription. */
async function edit({ subscribe, relay, keyId, page, go }: Scene, more: object) {
  const { id } = await subscribe("/edited", { description: "Shared", ...more });
  const route = `/api-keys/${keyId}/webhooks/${id}`;
  await go(`k/${keyId}/subscriptions/${id}`, "Shared");
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("dialog").waitFor();
  return {
    stored: async () => (await relay.call("GET", route)).json.data,
    change: async (patch: object) => {
      const answer = await relay.call("PATCH", route, { body: patch });
      expect(answer.status, answer.text).toBe(200);
    },
  };
}

stage("the edit form", {}, (it) => {
  it("sends only what was changed in it, so that what others change meanwhile stays", async (scene) => {
    const { page } = scene;
    const headers = { "X-Kept": "kept", "X-Removed": "removed", "X-Gone": "gone" };
    const { stored, change } = await edit(scene, { timeoutMs: 5_000, headers });
    const sent: unknown[] = [];
    page.on("request", (request) => {
      if (request.method() === "PATCH") sent.push(request.postDataJSON());
    });
    const retry = { attempts: 2, firstDelayMs: 100, factor: 2, maxDelayMs: 1_000 };
    await change({
      events: ["deposit:paid"],
      filter: { path: "data.a", equals: 1 },
      rateLimit: { perSecond: 7 },
      timeoutMs: null,
      retry,
      ordered: true,
      onFailed: "hold",
      headers: { "X-Kept": null, "X-Removed": null, "X-Theirs": "theirs" },
    });
    await fill(page, { Description: "Mine" }, "Remove header 2");
    await page.getByRole("button", { name: "Add a header" }).click();
    await fill(page, { "Name of header 3": "X-Mine", "Value of header 3": "mine" }, "Save");
    await page.getByRole("heading", { level: 1, name: "Mine" }).waitFor();
    const now = await stored();
    expect(now).toMatchObject({
      description: "Mine",
      events: ["deposit:paid"],
      filter: { path: "data.a", equals: 1 },
      rateLimit: { perSecond: 7 },
      retry,
      ordered: true,
      onFailed: "hold",
    });
    expect(now.timeoutMs).toBeUndefined();
    expect(now.headers).toEqual({ "X-Kept": null, "X-Theirs": null, "X-Mine": null });
    expect(sent).toEqual([{ description: "Mine", headers: { "X-Kept": null, "X-Theirs": null, "X-Mine": "mine" } }]);
  });

  it("says what is stored now when somebody else has changed the same field, and replaces it only when asked again", async (scene) => {
    const { page } = scene;
    const { stored, change } = await edit(scene, { timeoutMs: 5_000 });
    await fill(page, { Description: "Mine", "Time-out in seconds": "" });
    await change({ description: "<b>Theirs</b>", timeoutMs: 9_000 });
    await page.getByRole("button", { name: "Save" }).click();
    const told = page.getByRole("dialog").getByRole("alert");
    await told.getByText("Somebody else has changed this meanwhile").waitFor();
    await told.getByText("<b>Theirs</b>").waitFor();
    await told.getByText("is now 9 s").waitFor();
    await expectAccessible(page);
    expect(await stored()).toMatchObject({ description: "<b>Theirs</b>", timeoutMs: 9_000 });
    expect(await page.getByLabel("Description").inputValue()).toBe("Mine");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { level: 1, name: "Mine" }).waitFor();
    const now = await stored();
    expect(now.description).toBe("Mine");
    expect(now.timeoutMs).toBeUndefined();
  });

  it("sends nothing when nothing was changed, whatever the waits are", async (scene) => {
    const { page, limited } = scene;
    const retry = { attempts: 3, firstDelayMs: 16_100, factor: 2, maxDelayMs: 64_001 };
    const order = { ordered: true, orderBy: ["data", "a"], filter: { path: "data.a", equals: 1 } };
    const { stored } = await edit(scene, { retry, ...order, headers: { "X-A": "a" } });
    const before = await stored();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(limited.filter((one) => one.startsWith("PATCH"))).toEqual([]);
    expect(await stored()).toEqual(before);
  });
});
