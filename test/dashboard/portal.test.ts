// The portal as a customer meets it: in a frame of the operator's own page, in its name and colours, with no cookie and no storage.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Frame } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { expectAccessible, fill, judge, LOOKS, picture, type Screen, setUp, useBrowser, WIDE } from "./browser.ts";

const browser = useBrowser();
const SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="4" fill="#0b6e4f"/></svg>';
const DOCS = "https://docs.acme.example/webhooks";
const STORED = "the portal must not touch the storage of the browser";

/** A page of another site with a frame in it; `localhost` and `127.0.0.1` are two sites. */
async function startHost(): Promise<{
  readonly origin: string;
  readonly server: Server;
  show: (url: string) => string;
}> {
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "", "http://localhost").searchParams.get("frame") ?? "";
    response.setHeader("content-type", "text/html; charset=utf-8");
    response.end(
      `<!doctype html><html lang="en"><title>Host</title><style>html,body{margin:0}iframe{border:0;width:100%;height:100vh;display:block}</style><main><h1 hidden>Host</h1><iframe title="Webhooks" src="${url.replaceAll('"', "")}"></iframe></main>`,
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  return { origin, server, show: (url) => `${origin}/?frame=${encodeURIComponent(url)}` };
}

let relay: TestRelay;
let receiver: Receiver;
let allowed: Awaited<ReturnType<typeof startHost>>;
let foreign: Awaited<ReturnType<typeof startHost>>;
let failedEvent: string;
beforeAll(async () => {
  [receiver, allowed, foreign] = await Promise.all([
    startReceiver({ script: () => ({ do: "reply", status: 500 }) }),
    startHost(),
    startHost(),
  ]);
  relay = await startRelay({
    health: false,
    portal: {
      name: "Acme <Payments>",
      logo: `data:image/svg+xml;base64,${Buffer.from(SVG).toString("base64")}`,
      colors: { light: { accent: "#0b6e4f" }, dark: { accent: "#6fd6b0" } },
      docs: DOCS,
      frameAncestors: [allowed.origin],
    },
  });
  const retry = { attempts: 1, firstDelayMs: 10, factor: 1, maxDelayMs: 10 };
  const body = { url: receiver.url(), events: ["*"], description: "Books", retry };
  await relay.call("POST", "/api-keys/key_1/webhooks", { body });
  failedEvent = (await relay.publish({ type: "deposit:paid", keyId: "key_1", data: { amount: 5 } })).json.data.id;
  await receiver.waitFor(1);
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  for (const { server } of [allowed, foreign]) server.close();
});

async function linkTo(access: "manage" | "read"): Promise<string> {
  const made = await relay.call("POST", "/api-keys/key_1/portal-links", { body: { access } });
  return made.json.data.url as string;
}

/** Opens a link in a frame of another site, in a browser that gives it neither storage nor cookies. */
async function framed(screen: Screen, url: string): Promise<Frame> {
  const { page } = screen;
  await page.addInitScript(
    `for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, { get() { throw new Error(${JSON.stringify(STORED)}); } });`,
  );
  await page.goto(allowed.show(url));
  const frame = page.frames().find((one) => one.url().startsWith(relay.url));
  if (frame === undefined) throw new Error("the frame did not open");
  return frame;
}

const names = (frame: Frame, role: "link" | "button"): Promise<readonly string[]> =>
  frame.getByRole(role).evaluateAll((all) => all.map((one) => (one.textContent ?? "").trim()));

describe("the page of the portal", () => {
  const get = (path: string) => relay.call("GET", path, { token: null });

  it("names those who may frame it, and the dashboard is framed by nobody, as before", async () => {
    const [portal, developers] = [await get("/portal"), await get("/developers")];
    expect(portal.headers["content-security-policy"]).toMatch(
      / style-src 'self';.* script-src 'self' 'sha256-[^' ]+';/,
    );
    expect(portal.headers["content-security-policy"]).toMatch(new RegExp(`frame-ancestors ${allowed.origin}$`));
    expect(portal.headers["x-frame-options"]).toBeUndefined();
    expect(developers.headers["content-security-policy"]).toMatch(/frame-ancestors 'none'$/);
    expect(developers.headers["x-frame-options"]).toBe("DENY");
    await using plain = await startRelay();
    const unnamed = await plain.call("GET", "/portal", { token: null });
    expect(unnamed.headers["content-security-policy"]).toMatch(/frame-ancestors 'none'$/);
    expect(unnamed.headers["x-frame-options"]).toBe("DENY");
    expect(unnamed.text).toContain("<title>Relay</title>");
  });

  it("has the operator's name as text, its colours as a stylesheet, and nothing inline but the one script that its policy names", async () => {
    const { text } = await get("/portal");
    expect(text).toContain("<title>Acme &lt;Payments></title>");
    expect(text.replace(` data-docs="${DOCS}"`, "").replace(/<script>[^]*?<\/script>/, "")).not.toMatch(
      /<script(?![^>]*\bsrc=)|<style|\son[a-z]+=|\sstyle=|https?:\/\//,
    );
    const parts = [...new Set([...text.matchAll(/"(portal\/[^"]+)"/g)].map(([, path]) => `/${path}`))];
    for (const path of parts) expect([path, (await get(path)).status]).toEqual([path, 200]);
    const colors = await get(parts.find((path) => path.includes("/colors.")) as string);
    expect(colors.text).toContain("--light-accent: #0b6e4f; --light-on-accent: #ffffff;");
    expect(colors.text).toContain("--dark-accent: #6fd6b0; --dark-on-accent: #000000;");
    const logo = await get(parts.find((path) => path.includes("/logo.")) as string);
    expect(logo.text).toBe(SVG);
    expect(logo.headers["content-security-policy"]).toBe("default-src 'none'; style-src 'unsafe-inline'; sandbox");
  });
});

describe.skipIf(browser.missing !== undefined)(`in a frame (${browser.missing ?? "in Chromium"})`, () => {
  it("of a named origin, a customer manages its key, and finds nothing that is the operator's", async () => {
    await using screen = await browser.open(relay);
    const frame = await framed(screen, await linkTo("manage"));
    await frame.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    expect(frame.url()).toBe(`${relay.url}/portal#/k/key_1/overview`);
    expect((await names(frame, "link")).slice(0, 5)).toEqual([
      "Skip to the content",
      "Acme <Payments>",
      "Overview",
      "Subscriptions",
      "Events",
    ]);
    expect(await names(frame, "link")).not.toContain("Audit");
    expect(await names(frame, "button")).not.toContain("Portal link…");
    await expect.poll(() => frame.evaluate("document.querySelector('.brand img').naturalWidth")).toBeGreaterThan(0);
    await frame.locator(".tile a").first().waitFor();
    const colour = (): Promise<unknown> => frame.evaluate("getComputedStyle(document.querySelector('.tile a')).color");
    await expect.poll(colour).toBe("rgb(11, 110, 79)");
    await frame.evaluate('location.hash = "#/k/key_1/subscriptions"');
    await frame.getByRole("button", { name: "Create subscription" }).click();
    await frame.getByLabel("URL", { exact: true }).fill(receiver.url("/two"));
    await fill(frame, { "Add an event name or pattern": "withdraw:*" }, "Add");
    await frame.getByRole("button", { name: "Create", exact: true }).click();
    await frame.getByText("It is shown only this once.").waitFor();
    await frame.getByLabel("I have stored it in a safe place").click();
    await frame.getByRole("button", { name: "Done" }).click();
    // What was made is open behind its secret, and no figure of the operator's programs is anywhere.
    await frame.getByRole("button", { name: "Edit" }).waitFor();
    await frame.evaluate('location.hash = "#/k/key_1/overview"');
    await frame.getByRole("heading", { name: "Backlog" }).waitFor();
    expect(await frame.getByText(/\b429\b/).count()).toBe(0);
    expect(await frame.getByRole("link", { name: "Documentation" }).getAttribute("href")).toBe(DOCS);
    await frame.getByRole("region", { name: "Needs attention" }).getByText("HTTP 500").first().waitFor();
    expect(await names(frame, "button")).not.toContain("Acknowledge");
    expect(await names(frame, "button")).not.toContain("Rotate secret");
    await frame.evaluate(`location.hash = "#/k/key_1/events/${failedEvent}"`);
    await frame.getByRole("button", { name: "Replay the failed delivery" }).waitFor();
    expect(await names(frame, "button")).not.toContain("Erase…");
    for (const view of ["k/key_1/audit", "k/key_2/events", "relay", "account", "keys"]) {
      await frame.evaluate(`location.hash = "#/${view}"`);
      await frame.getByText("There is no such view").waitFor();
    }
    // The first field of a dialog is not focused in a frame of another site before somebody has clicked there.
    expect(screen.complaints.filter((one) => !one.startsWith("Blocked autofocusing"))).toEqual([]);
    expect(await screen.page.context().cookies()).toEqual([]);
  });

  it.each(LOOKS)("is for everybody at $width px, $scheme", async (look) => {
    await using screen = await browser.open(relay, look);
    const frame = await framed(screen, await linkTo("manage"));
    await frame.getByText("Events accepted").waitFor();
    await judge(frame);
    await picture(screen.page, `portal-${look.width}-${look.scheme}`, false);
  });

  it("a link to read shows everything and offers no change", async () => {
    await using screen = await browser.open(relay);
    const frame = await framed(screen, await linkTo("read"));
    const offered = async (view: string, heading: string): Promise<readonly string[]> => {
      await frame.evaluate(`location.hash = "#/k/key_1/${view}"`);
      await frame.getByRole("heading", { level: 1, name: heading }).waitFor();
      await expect.poll(() => frame.locator(".skeleton").count()).toBe(0);
      return (await names(frame, "button")).filter((name) =>
        /create|edit|able$|rotate|delete|replay|erase|send|skip|link/i.test(name),
      );
    };
    await frame.getByText("You may only look").waitFor();
    expect(await offered("subscriptions", "Subscriptions")).toEqual([]);
    expect(await offered("events", "Events")).toEqual([]);
    expect(await offered(`events/${failedEvent}`, "deposit:paid")).toEqual([]);
    await frame.evaluate('location.hash = "#/k/key_1/subscriptions"');
    await frame.getByRole("link", { name: "Books" }).first().click();
    await frame.getByRole("heading", { name: "Settings" }).waitFor();
    expect((await names(frame, "button")).filter((name) => /edit|able$|rotate|delete|send/i.test(name))).toEqual([]);
    expect(screen.complaints).toEqual([]);
  });

  it("of another origin, nothing is shown", async () => {
    await using screen = await browser.open(relay);
    const { page } = screen;
    await page.goto(foreign.show(await linkTo("manage")));
    expect(page.frames().filter((one) => one.url().startsWith(relay.url))).toEqual([]);
    await expect.poll(() => screen.complaints.join()).toMatch(/frame-ancestors/);
  });

  it("the dashboard is not shown by a named origin either", async () => {
    await using screen = await browser.open(relay);
    await screen.page.goto(allowed.show(`${relay.url}/developers`));
    expect(screen.page.frames().filter((one) => one.url().startsWith(relay.url))).toEqual([]);
  });

  it("opens a link in a browser whose clock is a day ahead", async () => {
    await using screen = await browser.open(relay);
    await screen.page.addInitScript("{ const now = Date.now.bind(Date); Date.now = () => now() + 86_400_000; }");
    const frame = await framed(screen, await linkTo("manage"));
    await frame.getByText("Events accepted").waitFor();
  });

  it("goes on where somebody is at work when a fresh link comes", async () => {
    await using screen = await browser.open(relay);
    const frame = await framed(screen, await linkTo("manage"));
    await frame.getByRole("link", { name: "Subscriptions" }).click();
    await frame.getByRole("button", { name: "Create subscription" }).click();
    await frame.getByLabel("Description").fill("Typed with care");
    const url = await linkTo("manage");
    await screen.page.evaluate(`document.querySelector("iframe").src = ${JSON.stringify(url)}`);
    await expect.poll(() => frame.url()).toBe(`${relay.url}/portal#/k/key_1/subscriptions`);
    expect(await frame.getByLabel("Description").inputValue()).toBe("Typed with care");
    // The fresh one is in use: the one before it may end.
    const sent = screen.page.waitForRequest((request) => request.url().endsWith("/stats?range=24h&recent=50"));
    await frame.getByRole("button", { name: "Cancel" }).click();
    await frame.getByRole("link", { name: "Overview" }).click();
    await frame.getByRole("link", { name: "Subscriptions" }).click();
    expect((await sent).headers()["authorization"]).toBe(`Bearer ${url.split("#link=")[1]}`);
  });

  it("takes a fresh link from the page around it, says when one has ended, and opens without one for nobody", async () => {
    await using screen = await browser.open(relay);
    const frame = await framed(screen, `${relay.url}/portal`);
    await frame.getByText("This page opens by a link only.").waitFor();
    const again = async (): Promise<void> => {
      const url = await linkTo("read");
      await screen.page.evaluate(`document.querySelector("iframe").src = ${JSON.stringify(url)}`);
    };
    await again();
    await frame.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await relay.call("DELETE", "/api-keys/key_1/portal-links");
    await frame.evaluate('location.hash = "#/k/key_1/events"');
    await frame.getByText("This link has expired or was ended.").waitFor();
    await again();
    await frame.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  });
});

describe.skipIf(browser.missing !== undefined)(`outside of a frame (${browser.missing ?? "in Chromium"})`, () => {
  it("an operator makes a link in the dashboard, and it opens in a tab of its own", async () => {
    await using screen = await browser.open(relay, WIDE);
    const { page } = screen;
    await setUp(relay, screen);
    await screen.go("k/key_1/overview", "Overview");
    await page.getByRole("button", { name: "Portal link…" }).click();
    await page.getByLabel("The customer may").selectOption("read");
    await page.getByRole("button", { name: "Make the link" }).click();
    const url = (await page.locator(".secret code").textContent()) as string;
    await expectAccessible(page);
    await page.goto(url);
    await page.getByText("You may only look").waitFor();
    // The operator's own session, in the same browser, is not taken up by the portal.
    expect(await page.getByRole("link", { name: "Account" }).count()).toBe(0);
    await page.getByRole("button", { name: "Leave" }).click();
    await page.getByText("You have left this page.").waitFor();
    expect(screen.complaints).toEqual([]);
  });
});
