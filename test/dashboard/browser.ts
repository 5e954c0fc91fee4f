// The browser of test/browser-server.ts, and pages in it as people have them: a size, a theme, and nothing left from before.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium, type Browser, type Page } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { endsWithin } from "../../core/lib/within.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { totpCode } from "../../plugins/auth/accounts/codes.ts";
import { needs } from "../support/needs.ts";
import type { TestRelay } from "../support/relay.ts";

export interface Look {
  readonly width: number;
  readonly scheme: "light" | "dark";
}
export const WIDE: Look = { width: 1280, scheme: "light" };
export const LOOKS: readonly Look[] = [
  WIDE,
  { width: 1280, scheme: "dark" },
  { width: 360, scheme: "light" },
  { width: 360, scheme: "dark" },
];

const CLOSE_MS = 10_000;
const missing = needs("chromium");
/** Pictures are for people to look at: no test compares them. */
const pictures = process.env["RELAY_PICTURES"] === "on";
const folder = join(import.meta.dirname, "../../artefacts/dashboard");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Cookies of a session, so that the next page need not log in. */
export type State = Awaited<ReturnType<ReturnType<Page["context"]>["storageState"]>>;

export interface Screen extends AsyncDisposable {
  readonly page: Page;
  /** Complaints of the page: errors of scripts, refusals by its policy. */
  readonly complaints: readonly string[];
  /** Requests that limits count, as `METHOD path`. */
  readonly limited: string[];
  /** Goes to a view and waits for its heading. */
  go(view: string, heading: string | RegExp): Promise<void>;
}

/** Why the browser's tests are skipped here, or undefined. Connects to the browser before the file's tests. */
export function useBrowser(): {
  readonly missing: string | undefined;
  open(relay: TestRelay, look?: Look, state?: State): Promise<Screen>;
} {
  let browser: Browser;
  beforeAll(async () => {
    if (missing !== undefined) return;
    if (pictures) mkdirSync(folder, { recursive: true });
    browser = await chromium.connect(await (await fetch(process.env["RELAY_TEST_BROWSER"] ?? "")).text());
  });
  afterAll(() => browser?.close());
  return {
    missing,
    async open(relay, { width, scheme } = WIDE, state) {
      const context = await browser.newContext({
        viewport: { width, height: 800 },
        colorScheme: scheme,
        storageState: state,
        locale: "en-GB",
      });
      await context.grantPermissions(["clipboard-read", "clipboard-write"]);
      context.setDefaultTimeout(60_000);
      const page = await context.newPage();
      const complaints: string[] = [];
      const limited: string[] = [];
      page.on("pageerror", (error) => complaints.push(String(error)));
      page.on("dialog", (dialog) => {
        complaints.push(`a dialog of the browser: ${dialog.message()}`);
        void dialog.dismiss();
      });
      page.on("console", (line) => {
        // Answers that are no success are told there too; the page shows them itself.
        if (line.type() === "error" && !line.text().startsWith("Failed to load resource")) complaints.push(line.text());
      });
      page.on("request", (request) => {
        const { pathname } = new URL(request.url());
        // The page and its parts are free; all else that it asks for has a row in the table of limits.
        if (!pathname.startsWith("/developers")) limited.push(`${request.method()} ${pathname}`);
      });
      return {
        page,
        complaints,
        limited,
        async go(view, heading) {
          await page.goto(`${relay.url}/developers#/${view}`);
          await page.getByRole("heading", { level: 1, name: heading }).waitFor();
        },
        async [Symbol.asyncDispose]() {
          if (page.isClosed()) return;
          // A request that a test has taken over may be under way still.
          const closed = page.unrouteAll({ behavior: "ignoreErrors" }).then(() => context.close());
          // A page that hangs must not hide what the test waited for.
          await endsWithin(systemClock(), CLOSE_MS, closed);
        },
      };
    },
  };
}

/** Keeps a picture of the page as it stands, where `RELAY_PICTURES=on` asks for it. */
export async function picture(page: Page, name: string, whole = true): Promise<void> {
  if (!pictures) return;
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: whole });
}

/** No violation of what axe can judge, and nothing wider than the screen. A page with a name is kept as a picture. */
export async function expectAccessible(page: Page, name?: string, whole = true): Promise<void> {
  await judge(page);
  if (name !== undefined) await picture(page, name, whole);
}

/** @param rules only these, on a page that was judged by all of them before */
export async function judge(page: Pick<Page, "evaluate">, rules?: readonly string[]): Promise<void> {
  if ((await page.evaluate("typeof axe")) === "undefined") await page.evaluate(axe);
  const only = JSON.stringify({
    // Of what passes, one node a rule is enough to be found: nobody reads them.
    resultTypes: ["violations"],
    selectors: false,
    // No rule of these asks for stylesheets.
    preload: false,
    ...(rules !== undefined && { runOnly: { type: "rule", values: rules } }),
  });
  const found = (await page.evaluate(
    `axe.run(document, ${only}).then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map((node) => node.html.slice(0, 160)).join(' | ')))`,
  )) as readonly string[];
  expect(found).toEqual([]);
  const [content, screen] = (await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")) as [
    number,
    number,
  ];
  expect(content).toBeLessThanOrEqual(screen);
}

/** Keeps the answer to the first such request back. The relay has done what was asked for once `answered` resolves. */
export async function held(
  page: Page,
  method: string,
  path: string | RegExp,
): Promise<{ readonly answered: Promise<void>; readonly release: () => void }> {
  const answered = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  let first = true;
  await page.route(
    ({ pathname }) => (typeof path === "string" ? pathname === path : path.test(pathname)),
    async (route) => {
      if (route.request().method() !== method || !first) return await route.fallback();
      first = false;
      const response = await route.fetch();
      answered.resolve();
      await released.promise;
      // The page may have given it up.
      await route.fulfill({ response }).catch(() => undefined);
    },
  );
  return { answered: answered.promise, release: released.resolve };
}

export const PASSWORD = "correct horse battery staple";

/** Makes the first account with the code in the data folder. */
export async function setUp(relay: TestRelay, { page }: Screen): Promise<void> {
  await page.goto(`${relay.url}/developers`);
  await fill(page, { "Set-up code": setupCode(relay), Username: "ada", Password: PASSWORD }, "Make the account");
  await page.getByRole("button", { name: "Log out" }).waitFor();
}

/** Makes the first account as the page does, without the page. */
export async function firstSession(relay: TestRelay): Promise<State> {
  const body = { code: setupCode(relay), username: "ada", password: PASSWORD };
  const { headers, text } = await relay.call("POST", "/auth/setup", { token: null, body });
  const [, name, value] = /^([^=]+)=([^;]+)/.exec(String(headers["set-cookie"])) ?? expect.unreachable(text);
  const rules = { path: "/", httpOnly: true, secure: true, sameSite: "Strict", expires: -1 } as const;
  return {
    cookies: [{ name: name ?? "", value: value ?? "", domain: new URL(relay.url).hostname, ...rules }],
    origins: [],
  };
}

export const setupCode = (relay: TestRelay): string => readFileSync(join(relay.dataDir, "setup-code"), "utf8").trim();

export async function logIn(relay: TestRelay, { page }: Screen, code?: string): Promise<void> {
  await page.goto(`${relay.url}/developers`);
  await fillLogin(page, PASSWORD);
  if (code !== undefined) await fill(page, { "Code of your second factor": code }, "Log in");
  await page.getByRole("button", { name: "Log out" }).waitFor();
}

/** @param part the page or a dialog of it */
export const fillLogin = (part: Part, password: string, username = "ada"): Promise<void> =>
  fill(part, { Username: username, Password: password }, "Log in");

/** Turns the second factor on. @returns the recovery codes */
export async function secondFactor({ page, ...screen }: Screen): Promise<readonly string[]> {
  await screen.go("account", "Account");
  await fill(page, { Password: PASSWORD }, "Set up a second factor");
  const secret = (await page.locator(".steps code").innerText()).replaceAll(" ", "");
  await page.getByLabel("Code", { exact: true }).fill(totpCode(secret, Math.floor(Date.now() / 30_000)));
  await page.getByRole("button", { name: "Turn it on" }).click();
  await page.getByText("Your second factor is on.").waitFor();
  const recovery = await page.locator(".codes code").allInnerTexts();
  await page.getByRole("button", { name: "I have kept them" }).click();
  return recovery;
}

type Part = Pick<Page, "getByLabel" | "getByRole">;

/** Fills fields by their labels in a page or a dialog, and presses a button, where one is named. */
export async function fill(part: Part, texts: Readonly<Record<string, string>>, button?: string): Promise<void> {
  for (const [label, text] of Object.entries(texts)) await part.getByLabel(label).fill(text);
  if (button !== undefined) await press(part, button);
}

/** Presses buttons, one after another. */
export async function press(part: Part, ...names: readonly string[]): Promise<void> {
  for (const name of names) await part.getByRole("button", { name, exact: true }).click();
}
