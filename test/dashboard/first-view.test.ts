// The requests of the first view are sent while the page is still loading, and only once.
import { expect } from "vitest";
import { held } from "./browser.ts";
import { type Key, stage } from "./stage.ts";

let subscription: string;
let event: string;
const VIEWS = [
  ["overview", () => "k/key_1/overview", () => "/stats"],
  ["the subscriptions", () => "k/key_1/subscriptions", () => "/stats"],
  ["a subscription", () => `k/key_1/subscriptions/${subscription}`, () => "/stats"],
  ["the events", () => "k/key_1/events", () => "/events"],
  ["an event", () => `k/key_1/events/${event}`, () => `/events/${event}`],
  ["the attempts", () => "k/key_1/attempts", () => "/attempts"],
] as const;

async function prepare({ receiver, subscribe, publish }: Key): Promise<void> {
  subscription = (await subscribe("/", { description: "Looked at" })).id;
  event = await publish();
  await receiver.waitFor(1);
}

stage("the first view", { prepare }, (it) => {
  for (const [name, view, list] of VIEWS)
    it(`of ${name} is asked for before its script has come, after the stream`, async ({ page, limited, relay }) => {
      const main = await held(page, "GET", /^\/developers\/main\./);
      const path = `/api-keys/key_1${list()}`;
      const asked = page.waitForResponse((response) => new URL(response.url()).pathname === path);
      await page.goto(`${relay.url}/developers#/${view()}`, { waitUntil: "commit" });
      await asked;
      expect(limited).toEqual(["POST /auth/refresh", "GET /api-keys/key_1/stream", `GET ${path}`]);
      main.release();
      await page.getByText("live", { exact: true }).waitFor();
      await page.locator("[aria-busy=true], .skeleton").first().waitFor({ state: "detached" });
      const twice = limited.filter((one, i) => limited.indexOf(one) !== i);
      expect(twice).toEqual([]);
    });

  it("shows what happened after its list was read and before the stream was open", async (scene) => {
    const { page, limited, relay } = scene;
    const late = Promise.withResolvers<void>();
    await page.route("**/stream?since=*", async (route) => {
      await late.promise;
      await route.continue();
    });
    const path = "/api-keys/key_quiet/events";
    const asked = page.waitForResponse((response) => new URL(response.url()).pathname === path);
    await page.goto(`${relay.url}/developers#/k/key_quiet/events`, { waitUntil: "commit" });
    await asked;
    const { id } = (await relay.publish({ type: "deposit:paid", keyId: "key_quiet", data: 1 })).json.data;
    late.resolve();
    await page.getByRole("link", { name: id }).waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    expect(limited.filter((one) => one === `GET ${path}`).length).toBe(2);
  });

  it("calls subscriptions by their names and tells types, before anything else has told them", async (scene) => {
    const { page, go } = scene;
    await page.route("**/stats?*", (route) => route.abort());
    await go("k/key_1/attempts", "Attempts");
    await page.locator("tbody").getByRole("link", { name: "Looked at" }).waitFor();
    await go("k/key_1/events", "Events");
    await page.locator("tbody").getByText("Looked at").waitFor();
    await go(`k/key_1/events/${event}`, "deposit:paid");
    await page.getByRole("link", { name: "Looked at" }).waitFor();
    await go(`k/key_1/subscriptions/${subscription}/deliveries`, "Looked at");
    await page.locator("tbody").getByText("deposit:paid").waitFor();
  });

  it("is not asked for where nobody is logged in", async ({ page, go, limited }) => {
    await page.context().clearCookies();
    await go("k/key_1/events", "Log in");
    expect(limited).toEqual(["POST /auth/refresh"]);
  });

  it("is read again when the user comes back to it: what was begun is not shown late", async (scene) => {
    const { page, limited, relay } = scene;
    const main = await held(page, "GET", /^\/developers\/main\./);
    const asked = page.waitForResponse((response) => new URL(response.url()).pathname === "/api-keys/key_1/events");
    await page.goto(`${relay.url}/developers#/k/key_1/events`, { waitUntil: "commit" });
    await asked;
    // Another view is opened before the script is there.
    await page.evaluate("location.hash = '#/k/key_1/overview'");
    main.release();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    const late = (await relay.publish({ type: "deposit:paid", keyId: "key_1", data: 2 })).json.data.id;
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByRole("link", { name: late }).waitFor();
    expect(limited.filter((one) => one === "GET /api-keys/key_1/events").length).toBe(2);
  });
});
