// The sign that says whether a view is live: it never claims that while what is shown may be old.
import { describe, expect, it } from "vitest";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { expectAccessible, picture, useLoggedIn, type Screen } from "./browser.ts";

let relay: TestRelay;
const browser = useLoggedIn(async (kept) => {
  relay = kept.use(await startRelay());
  return relay;
});
const { open } = browser;
const publish = async (keyId: string): Promise<string> =>
  (await relay.publish({ type: "deposit:paid", keyId, data: 1 })).json.data.id;
const live = ({ page }: Screen) => page.getByText("live", { exact: true });

describe.skipIf(browser.missing !== undefined)(`the sign of a live view (${browser.missing ?? "in Chromium"})`, () => {
  it("says that it reconnects while requests fail though the stream is open, and the view recovers by itself", async () => {
    await using screen = await open();
    const { page, complaints } = screen;
    await screen.go("k/key_1/overview", "Overview");
    await live(screen).waitFor();
    // The stream stays open: only what is asked for from now on fails.
    const any = (url: URL): boolean => url.pathname.startsWith("/api-keys/");
    await page.route(any, (route) => route.abort());
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByText("The relay cannot be reached.").waitFor();
    await page.getByText("reconnecting…", { exact: true }).waitFor();
    await expectAccessible(page);
    await picture(page, "reconnecting", false);
    const id = await publish("key_1");
    await page.unroute(any);
    await page.getByRole("link", { name: id }).waitFor();
    await live(screen).waitFor();
    expect(await page.getByText("The relay cannot be reached.").count()).toBe(0);
    expect(complaints).toEqual([]);
  });

  it("is not live while the relay answers that it cannot read", async () => {
    await using screen = await open();
    const { page } = screen;
    await screen.go("k/key_2/overview", "Overview");
    await live(screen).waitFor();
    const lists = (url: URL): boolean => url.pathname === "/api-keys/key_2/events";
    const json = { code: "STORAGE_UNAVAILABLE", detail: "The storage is away." };
    await page.route(lists, (route) => route.fulfill({ status: 503, json }));
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByText("The storage is away.").waitFor();
    await page.getByText("reconnecting…", { exact: true }).waitFor();
    await page.unroute(lists);
    await page.getByRole("heading", { name: "No event yet" }).waitFor();
    await live(screen).waitFor();
  });

  it("says offline without a network, and shows what happened meanwhile once there is one", async () => {
    await using screen = await open();
    const { page } = screen;
    await screen.go("k/key_3/events", "Events");
    await live(screen).waitFor();
    await page.context().setOffline(true);
    await page.getByText("offline", { exact: true }).waitFor();
    const id = await publish("key_3");
    await page.context().setOffline(false);
    await page.getByRole("link", { name: id }).waitFor();
    await live(screen).waitFor();
  });

  it("comes by itself to a view that has used up its requests", async () => {
    await using receiver = await startReceiver();
    const body = { url: receiver.url("/"), events: ["*"], description: "Looked at" };
    const { id } = (await relay.call("POST", "/api-keys/key_6/webhooks", { body })).json.data;
    await using screen = await open();
    // The session, the list and the name.
    await screen.go(`k/key_6/subscriptions/${id}/deliveries`, "Looked at");
    await screen.page.getByText("not live", { exact: true }).waitFor();
    await live(screen).waitFor();
  });

  it("gives up a stream that has been silent for longer than the relay ever is", async () => {
    await using screen = await open();
    const { page } = screen;
    await page.clock.install();
    let streams = 0;
    page.on("request", (request) => {
      if (new URL(request.url()).pathname.endsWith("/stream")) streams++;
    });
    await screen.go("k/key_4/events", "Events");
    await live(screen).waitFor();
    const id = await publish("key_4");
    await page.getByRole("link", { name: id }).waitFor();
    expect(streams).toBe(1);
    await page.clock.fastForward(45_000);
    await expect.poll(() => streams, { timeout: 30_000 }).toBe(2);
    await live(screen).waitFor();
  });

  it("gives up a stream that is not opened at all, and what was asked for meanwhile is asked for again", async () => {
    await using screen = await open();
    const { page } = screen;
    await page.clock.install();
    const away = new Set(["/api-keys/key_7/stream", "/api-keys/key_7/attempts"]);
    // Neither refused nor answered, as by a network that swallows what is sent.
    await page.route(
      (url) => away.has(url.pathname),
      (route) => (away.delete(new URL(route.request().url()).pathname) ? undefined : route.continue()),
    );
    await page.goto(`${relay.url}/developers#/k/key_7/attempts`);
    await page.getByText("connecting…", { exact: true }).waitFor();
    await page.clock.runFor(2_000);
    await expect.poll(() => away.size).toBe(0);
    await page.clock.fastForward(45_000);
    await page.getByText("reconnecting…", { exact: true }).waitFor();
    await page.clock.fastForward(10_000);
    await live(screen).waitFor();
    await page.getByRole("heading", { name: "No attempt here" }).waitFor();
  });

  it("tells an answer that breaks off as what it is, and reads it again by itself", async () => {
    await using screen = await open();
    const { page } = screen;
    await screen.go("k/key_8/overview", "Overview");
    await live(screen).waitFor();
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

  it("goes on with the time, also where nothing happens", async () => {
    await using screen = await open();
    const { page, limited } = screen;
    // Without a stream, which would have the view read again by itself.
    await page.route("**/stream", (route) => route.abort());
    await page.clock.install();
    await screen.go("k/key_quiet/overview", "Overview");
    await page.getByText("Events accepted").waitFor();
    const reads = (): number => limited.filter((one) => one === "GET /api-keys/key_quiet/stats").length;
    const before = reads();
    await page.clock.fastForward(61_000);
    await expect.poll(reads).toBeGreaterThan(before);
  });
});
