// How soon the dashboard shows a list of a million stored events: in Chromium, from the address or from a click to the rows.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { sqlite } from "../plugins/storage/sqlite.ts";
import { findProgram } from "../tools/find-program.ts";
import { context } from "./queue/surroundings.ts";
import { fill } from "./retention/fill.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { KEY_ID } from "./throughput/event.ts";
import { pass } from "./throughput/rounds.ts";
import { openWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    events: { type: "string", default: "1000000" },
    /** How often each view is opened. */
    rounds: { type: "string", default: "7" },
  },
});
const events = within(options.events, 1_000, 10_000_000, 1_000_000);
const rounds = within(options.rounds, 1, 100, 7);
/** The most that the median of the first view may take. */
const LIMIT_MS = 100;
const DAY_MS = 86_400_000;
const HOME = `k/${KEY_ID}`;
/** Views, what stands in each once it is there, and how often. */
const VIEWS = [
  ["events", "tbody tr", 25],
  ["attempts", "tbody tr", 25],
  ["overview", ".tile dd", 6],
] as const;

/** Resolves, in the page, to the time at which so many of them were painted, under that heading. */
const painted = (view: string, selector: string, count: number): string => `new Promise((done) => {
  const look = () =>
    location.hash.includes(${JSON.stringify(view)}) && document.querySelectorAll(${JSON.stringify(selector)}).length >= ${count}
      && document.querySelector("h1")?.textContent.toLowerCase() === ${JSON.stringify(view)}
      ? requestAnimationFrame(() => setTimeout(() => done(performance.now())))
      : requestAnimationFrame(look);
  look();
})`;

async function logIn(page: Page, url: string, code: string): Promise<void> {
  await page.goto(url);
  await page.getByLabel("Set-up code").fill(code);
  await page.getByLabel("Username").fill("ada");
  await page.getByLabel("Password").fill("correct horse battery staple");
  await page.getByRole("button", { name: "Make the account" }).click();
  await page.getByRole("button", { name: "Log out" }).waitFor();
}

/** Opens the address in a new tab of a browser that has cached nothing. @returns ms from the navigation on */
async function cold(browser: BrowserContext, url: string, [view, selector, count]: (typeof VIEWS)[number]) {
  const page = await browser.newPage();
  await (await browser.newCDPSession(page)).send("Network.clearBrowserCache");
  await page.goto(`${url}#/${HOME}/${view}`, { waitUntil: "commit" });
  const ms = (await page.evaluate(painted(view, selector, count))) as number;
  await page.close();
  return ms;
}

/** Clicks on the link to the view in the navigation of the page. @returns ms from the click on */
const click = async (page: Page, [view, selector, count]: (typeof VIEWS)[number]): Promise<number> =>
  (await page.evaluate(
    `(() => { const from = performance.now(); document.querySelector("nav a[href$='/${view}']").click(); return ${painted(view, selector, count)}.then((at) => at - from); })()`,
  )) as number;

const spread = (all: readonly number[]) => {
  const sorted = all.toSorted((a, b) => a - b).map((ms) => round(ms));
  return { median: sorted[sorted.length >> 1] ?? 0, least: sorted[0] ?? 0, most: sorted.at(-1) ?? 0 };
};

async function measure(folder: string) {
  const executablePath = findProgram("chromium");
  if (executablePath === undefined) throw new Error("needs chromium-headless-shell");
  const config = `limits: { "*": false }, abuse: false,`;
  const common = { folder, connections: 64, storage: "sqlite()", logLevel: "info", config };
  const world = await openWorld(common);
  await world.running.stop();
  say(`filling with ${events.toLocaleString("en")} delivered events …`);
  const storage = await sqlite().setup(context(join(folder, "data")));
  await fill(storage, KEY_ID, events, { ms: DAY_MS, spreadMs: DAY_MS - 60_000 });
  await storage.dispose();
  await world.restart();
  // The newest ones by the relay itself, so that there are statistics.
  await pass(world, world.running, 3, { form: "batch", connections: 2 });
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  try {
    const session = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    session.setDefaultTimeout(30_000);
    const url = `http://127.0.0.1:${world.relay.port}/developers`;
    const page = await session.newPage();
    await logIn(page, url, (await readFile(join(folder, "data/setup-code"), "utf8")).trim());
    const opened = VIEWS.map(([view]) => ({ view, fromAddress: [] as number[], fromClick: [] as number[] }));
    // The first round warms relay and browser up.
    for (let i = 0; i <= rounds; i++)
      for (const [at, view] of VIEWS.entries()) {
        const [address, clicked] = [await cold(session, url, view), await click(page, view)];
        if (i === 0) continue;
        opened[at]?.fromAddress.push(address);
        opened[at]?.fromClick.push(clicked);
      }
    return {
      events,
      rounds,
      views: opened.map(({ view, fromAddress, fromClick }) => ({
        view,
        fromAddress: spread(fromAddress),
        fromClick: spread(fromClick),
      })),
    };
  } finally {
    await browser.close();
    await world.end();
  }
}

await benchRun({
  longestS: 900,
  json: options.json,
  measure,
  met: ({ views }) => views.every((one) => Math.max(one.fromAddress.median, one.fromClick.median) <= LIMIT_MS),
  print({ views }) {
    console.log(`${events.toLocaleString("en")} events stored; ms until the view is painted, median (least … most)`);
    const shown = ({ median, least, most }: ReturnType<typeof spread>) => `${median} (${least} … ${most})`.padEnd(22);
    for (const { view, fromAddress, fromClick } of views)
      console.log(`${view.padEnd(10)} from its address ${shown(fromAddress)} from a click ${shown(fromClick)}`);
  },
});
