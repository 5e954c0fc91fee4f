// A key with 24 endpoints of which 8 are dead: somebody who opens the page asks what is wrong, and what to do.
import { expect } from "vitest";
import { startReceiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";
import { eventually } from "../support/until.ts";
import { expectAccessible, judge, picture } from "./browser.ts";
import { type Key, stage } from "./stage.ts";

const DEAD = ["Billing", "Ledger", "Gone", "Warehouse", "Mail", "Search", "Cards", "Slow"] as const;
/** What the first view says of each. */
const SAYS: Readonly<Record<(typeof DEAD)[number], readonly [state: string, why: RegExp]>> = {
  Billing: ["down", /attempts in a row have failed, the last one: HTTP 500\. See the log of the receiver/],
  Ledger: ["down", /HTTP 404\. Correct the path of its URL/],
  Gone: ["disabled by the relay", /The receiver answered 410/],
  Warehouse: ["down", /connect: .*ECONNREFUSED/],
  Mail: ["down", /reset: /],
  Search: ["down", /HTTP 401/],
  Cards: ["down", /HTTP 503/],
  Slow: ["down", /timeout/],
};
const ANSWERS: Readonly<Record<string, number>> = {
  "/billing": 500,
  "/ledger": 404,
  "/gone": 410,
  "/cards": 503,
  "/search": 401,
};
const receiver = {
  script: ({ path }: { readonly path: string }) =>
    path === "/slow" || path === "/mail"
      ? ({ do: path === "/slow" ? "hang" : "reset" } as const)
      : ({ do: "reply", status: ANSWERS[path] ?? 200 } as const),
};
const EVENTS = 6;
/** No list of theirs has more. */
const MOST_PAGES = 20;

const start = () => startRelay({ health: { breakerAfter: 4, breakerPauseMs: 600_000 }, retry: { attempts: 1 } });

async function prepare({ relay, subscribe, publish }: Key): Promise<void> {
  const closed = await startReceiver();
  await closed[Symbol.asyncDispose]();
  for (let i = 0; i < 24; i++) {
    const dead = i % 3 === 1 ? DEAD[(i - 1) / 3] : undefined;
    const description = dead ?? `Shop ${i}`;
    const more = {
      description,
      ...(dead === "Warehouse" && { url: closed.url("/hook") }),
      ...(dead === "Slow" && { timeoutMs: 1_000 }),
    };
    await subscribe(`/${(dead ?? "shop").toLowerCase()}`, more);
  }
  const dead = async (): Promise<number> =>
    (await relay.call("GET", "/api-keys/key_1/attention")).json.data.filter(
      ({ state }: { readonly state: string }) => state === "down" || state === "disabled",
    ).length;
  for (let i = 0; i < EVENTS; i++) await publish();
  await eventually("8 are dead", async () => (await dead()) === 8);
}

stage("a key with 24 endpoints of which 8 are dead", { receiver, start, prepare }, (it) => {
  it("says on its first view what is wrong: all 8, with reasons and what helps, before any figure", async (scene) => {
    const { page, go } = scene;
    await go("k/key_1/overview", "Overview");
    const issues = page.getByRole("region", { name: "Needs attention" }).getByRole("listitem");
    await expect.poll(() => issues.count()).toBeGreaterThanOrEqual(8);
    await page.locator(".plot canvas").first().waitFor();
    const texts = await issues.allInnerTexts();
    expect(texts.filter((text) => DEAD.some((name) => text.includes(name)))).toHaveLength(8);
    for (const [name, [state, why]] of Object.entries(SAYS)) {
      const own = texts.find((text) => text.includes(name)) ?? "";
      expect([name, own]).toEqual([name, expect.stringContaining(state)]);
      expect(own).toMatch(why);
      if (state === "down") expect(own).toMatch(/next try in (?:9|10) minutes/);
    }
    await picture(page, "attention-first-view", false);
    await expectAccessible(page, "attention-overview");
    // It comes before the figures.
    const [list, tiles] = [await issues.last().boundingBox(), await page.locator(".tiles").boundingBox()];
    expect((list?.y ?? 0) + (list?.height ?? 0)).toBeLessThan(tiles?.y ?? 0);
  });

  for (const [width, scheme] of [
    [1280, "dark"],
    [390, "light"],
    [390, "dark"],
  ] as const)
    it(`is for everybody at ${width} px, ${scheme}`, async ({ open }) => {
      const { page, go, complaints } = await open({ width, scheme });
      for (const [view, heading] of [
        ["k/key_1/overview", "Overview"],
        ["k/key_1/subscriptions", "Subscriptions"],
        ["keys", "API keys"],
        ["relay", "The relay"],
      ] as const) {
        await go(view, heading);
        await page.getByRole("link", { name: "Billing" }).first().waitFor();
        await judge(page);
        await picture(page, `attention-${view.replaceAll("/", "-")}-${width}-${scheme}`);
      }
      expect(complaints).toEqual([]);
    });

  it("lists the worst first, in red, with the next try and the last attempts, and by state", async ({ page, go }) => {
    await go("k/key_1/subscriptions", "Subscriptions");
    const table = page.getByRole("region", { name: "Subscriptions" });
    const rows = table.locator("tbody tr");
    await expect.poll(() => rows.count()).toBe(24);
    const first = await rows.evaluateAll((all) => all.slice(0, 8).map((row) => row.querySelector("a")?.textContent));
    expect(first.toSorted()).toEqual(DEAD.toSorted());
    expect(await rows.nth(0).innerText()).toMatch(/down\s+next try in \d+ minutes, \d failed in a row/);
    expect(await rows.nth(0).getByRole("img").getAttribute("aria-label")).toMatch(
      /^The last \d attempts: 0 delivered, \d failed$/,
    );
    await page.getByRole("button", { name: "healthy 16" }).click();
    await expect.poll(() => rows.count()).toBe(16);
    await page.getByRole("button", { name: /^disabled by the relay/ }).click();
    await expect.poll(() => rows.count()).toBe(1);
    await page.getByRole("button", { name: "All 24" }).click();
    await page.getByLabel("Order").selectOption("As they were created");
    await expect.poll(() => rows.first().innerText()).toContain("Shop 0");
    expect(await page.getByText("paused").count()).toBe(0);
  });

  it("has figures that lead to exactly what they count, on every view", async ({ page, go }) => {
    /** Opens the list behind a figure, and sums what its rows say of it, over all its pages. */
    const counted = async (href: string): Promise<number> => {
      await page.goto(`${page.url().split("#")[0]}${href}`);
      const what = /[?&](?:delivery)=(\w+)/.exec(href)?.[1];
      let sum = 0;
      for (let turned = 0; ; turned++) {
        expect([href, turned]).toEqual([href, expect.toSatisfy((pages: number) => pages < MOST_PAGES)]);
        await page.locator(".skeleton, [aria-busy=true]").first().waitFor({ state: "detached" });
        await page.locator("tbody tr, .empty").first().waitFor();
        for (const text of await page.locator("tbody tr").allInnerTexts()) {
          const [, delivered] = /(\d+) of \d+ delivered/.exec(text) ?? [];
          const said = { delivered, failed: /(\d+) failed/.exec(text)?.[1], pending: /(\d+) waits?/.exec(text)?.[1] };
          // Of one subscription a row is one delivery.
          const one = what === undefined || href.includes("sub=");
          sum += one ? 1 : Number(said[what as keyof typeof said] ?? 0);
        }
        const older = page.getByRole("button", { name: "Older" });
        if ((await older.count()) === 0 || (await older.isDisabled())) return sum;
        const first = await page.locator("tbody tr").first().innerText();
        await older.click();
        await expect.poll(() => page.locator("tbody tr").first().innerText()).not.toBe(first);
      }
    };
    let checked = 0;
    for (const [view, heading, links] of [
      ["k/key_1/overview", "Overview", ".tile a"],
      ["keys", "API keys", "a.figure"],
      ["k/key_1/subscriptions", "Subscriptions", "a.figure"],
    ] as const) {
      await go(view, heading);
      await page.locator(links).first().waitFor();
      const figures = await page
        .locator(links)
        .evaluateAll((all) =>
          all.map(
            (one) => [one.getAttribute("href") ?? "", one.textContent, one.closest("div, tr")?.textContent] as const,
          ),
        );
      for (const [href, text, around] of figures.filter(([, shown], i) => i < 8 || shown !== "0")) {
        const [, attempts] = /of ([\d,]+) attempts/.exec(around ?? "") ?? [];
        const said = href.includes("/attempts") ? attempts : text;
        expect([view, href, await counted(href)]).toEqual([view, href, Number((said ?? "").replace(",", ""))]);
        checked += 1;
      }
    }
    expect(checked).toBeGreaterThan(12);
  });

  it("folds what somebody has acknowledged, and groups what failed alike", async ({ page, go }) => {
    await go("keys", "API keys");
    await page
      .getByRole("row", { name: /key_1 / })
      .getByText("8", { exact: true })
      .waitFor();
    await page.getByRole("button", { name: "Acknowledge: Cards" }).click();
    await page.getByText("1 acknowledged").click();
    await page.getByRole("button", { name: "Take back: Cards" }).waitFor();
    await page
      .getByRole("row", { name: /key_1 / })
      .getByText("7", { exact: true })
      .waitFor();
    await page.getByText(/the last one: HTTP 503/).click();
    await page.getByText(/^\d × HTTP 503$/).waitFor();
    await page.getByRole("link", { name: "the newest one" }).first().waitFor();
    await expectAccessible(page, "attention-keys");
    await page.getByRole("button", { name: "Take back: Cards" }).click();
    await page.getByRole("button", { name: "Acknowledge: Cards" }).waitFor();
  });

  it("is helped from there: what was disabled is enabled, what failed is replayed", async ({ page, go, relay }) => {
    await go("k/key_1/overview", "Overview");
    const gone = page.locator(".issue", { hasText: "Gone" });
    await gone.getByRole("button", { name: "Enable" }).click();
    await gone.getByText("disabled by the relay").waitFor({ state: "detached" });
    const billing = page.locator(".issue", { hasText: "Billing" });
    await billing.getByRole("link", { name: /^See \d failed$/ }).click();
    await page.getByRole("heading", { level: 1, name: "Billing" }).waitFor();
    const all = (await relay.call("GET", "/api-keys/key_1/attention")).json.data as {
      subscriptionName: string;
      failed: number;
    }[];
    const { failed } = all.find(({ subscriptionName }) => subscriptionName === "Billing") ?? {};
    await expect.poll(() => page.locator("tbody tr").count()).toBe(failed);
  });
});
