// The sign that says whether a view is live: it never claims that while what is shown may be old.
import { expect } from "vitest";
import { expectAccessible } from "./browser.ts";
import { type Scene, stage } from "./stage.ts";

const live = ({ page }: Pick<Scene, "page">) => page.getByText("live", { exact: true });

stage("the sign of a live view", {}, (it) => {
  it("says that it reconnects while requests fail though the stream is open, and the view recovers by itself", async (scene) => {
    const { page, go, keyId, publish } = scene;
    await go(`k/${keyId}/overview`, "Overview");
    await live({ page }).waitFor();
    // The stream stays open: only what is asked for from now on fails.
    const any = (url: URL): boolean => url.pathname.startsWith("/api-keys/");
    await page.route(any, (route) => route.abort());
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByText("The relay cannot be reached.").waitFor();
    await page.getByText("reconnecting…", { exact: true }).waitFor();
    await expectAccessible(page, "reconnecting", false);
    const id = await publish();
    await page.unroute(any);
    await page.getByRole("link", { name: id }).waitFor();
    await live({ page }).waitFor();
    expect(await page.getByText("The relay cannot be reached.").count()).toBe(0);
  });

  it("is not live while the relay answers that it cannot read", async ({ page, go, keyId }) => {
    await go(`k/${keyId}/overview`, "Overview");
    await live({ page }).waitFor();
    const lists = (url: URL): boolean => url.pathname === `/api-keys/${keyId}/events`;
    const json = { code: "STORAGE_UNAVAILABLE", detail: "The storage is away." };
    await page.route(lists, (route) => route.fulfill({ status: 503, json }));
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByText("The storage is away.").waitFor();
    await page.getByText("reconnecting…", { exact: true }).waitFor();
    await page.unroute(lists);
    await page.getByRole("heading", { name: "No event yet" }).waitFor();
    await live({ page }).waitFor();
  });

  it("says offline without a network, and shows what happened meanwhile once there is one", async (scene) => {
    const { page, go, keyId, publish } = scene;
    await go(`k/${keyId}/events`, "Events");
    await live({ page }).waitFor();
    await page.context().setOffline(true);
    await page.getByText("offline", { exact: true }).waitFor();
    const id = await publish();
    await page.context().setOffline(false);
    await page.getByRole("link", { name: id }).waitFor();
    await live({ page }).waitFor();
  });

  it("comes by itself to a view that has used up its requests", async ({ page, go, keyId }) => {
    // The session, the keys, the figures, and what needs attention.
    const json = { data: [{ id: keyId }], meta: { timestamp: new Date().toISOString() } };
    await page.route("**/api-keys?*", (route) => route.fulfill({ json }));
    await go("", "Overview");
    await page.getByText("not live", { exact: true }).waitFor();
    await live({ page }).waitFor();
  });

  it("gives up a stream that has been silent for longer than the relay ever is", async (scene) => {
    const { page, go, keyId, publish } = scene;
    await page.clock.install();
    let streams = 0;
    page.on("request", (request) => {
      if (new URL(request.url()).pathname.endsWith("/stream")) streams++;
    });
    await go(`k/${keyId}/events`, "Events");
    await live({ page }).waitFor();
    const id = await publish();
    await page.getByRole("link", { name: id }).waitFor();
    expect(streams).toBe(1);
    await page.clock.fastForward(45_000);
    await expect.poll(() => streams, { timeout: 30_000 }).toBe(2);
    await live({ page }).waitFor();
  });

  it("gives up a stream that is not opened at all, and what was asked for meanwhile is asked for again", async (scene) => {
    const { page, relay, keyId } = scene;
    await page.clock.install();
    const away = new Set([`/api-keys/${keyId}/stream`, `/api-keys/${keyId}/attempts`]);
    // Neither refused nor answered, as by a network that swallows what is sent.
    await page.route(
      (url) => away.has(url.pathname),
      (route) => (away.delete(new URL(route.request().url()).pathname) ? undefined : route.continue()),
    );
    await page.goto(`${relay.url}/developers#/k/${keyId}/attempts`);
    await page.getByText("connecting…", { exact: true }).waitFor();
    await page.clock.runFor(2_000);
    await expect.poll(() => away.size).toBe(0);
    await page.clock.fastForward(45_000);
    await page.getByText("reconnecting…", { exact: true }).waitFor();
    await page.clock.fastForward(10_000);
    await live({ page }).waitFor();
    await page.getByRole("heading", { name: "No attempt here" }).waitFor();
  });

  it("tells an answer that breaks off as what it is, and reads it again by itself", async ({ page, go, keyId }) => {
    await go(`k/${keyId}/overview`, "Overview");
    await live({ page }).waitFor();
    // As a browser does when the connection ends between the head of an answer and its end.
    await page.evaluate(`{
      const { text } = Response.prototype;
      window.broken = true;
      Response.prototype.text = function () {
        return window.broken ? Promise.reject(new TypeError("network error")) : text.call(this);
      };
    }`);
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByText("The relay cannot be reached.").waitFor();
    await page.evaluate("window.broken = false");
    await page.getByRole("heading", { name: "No event yet" }).waitFor();
    expect(await page.getByText("The relay cannot be reached.").count()).toBe(0);
  });

  it("goes on with the time, also where nothing happens", async ({ page, go, limited, keyId }) => {
    // Without a stream, which would have the view read again by itself.
    await page.route("**/stream", (route) => route.abort());
    await page.clock.install();
    await go(`k/${keyId}/overview`, "Overview");
    await page.getByText("Events accepted").waitFor();
    const reads = (): number => limited.filter((one) => one === `GET /api-keys/${keyId}/stats`).length;
    const before = reads();
    await page.clock.fastForward(61_000);
    await expect.poll(reads).toBeGreaterThan(before);
  });
});
