// How soon the dashboard shows a list of a million stored events: in Chromium, from the address or from a click to the rows.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { sqlite } from "../plugins/storage/sqlite.ts";
import { openChromium, type Chromium, type Tab } from "./dashboard/chromium.ts";
import { serveFloors } from "./dashboard/floors.ts";
import { context } from "./queue/surroundings.ts";
import { fill } from "./retention/fill.ts";
import { benchRun, round, say, within } from "./throughput/bench-run.ts";
import { KEY_ID } from "./throughput/event.ts";
import { hostSpeed, hostText } from "./throughput/host.ts";
import { pass } from "./throughput/rounds.ts";
import { openWorld } from "./throughput/world.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    events: { type: "string", default: "1000000" },
    /** How often each view is opened. */
    rounds: { type: "string", default: "9" },
  },
});
const events = within(options.events, 1_000, 10_000_000, 1_000_000);
const rounds = within(options.rounds, 1, 100, 9);
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
/** Pages of nothing but rows: what the browser itself takes for one, and for one with scripts and styles of that size. */
const FLOORS = ["empty", "scripts"] as const;

/** Resolves, in the page, to the time at which that holds and was painted, in ms since the navigation began. */
const painted = (holds: string): string => `new Promise((done) => {
  const look = () => ${holds} ? requestAnimationFrame(() => setTimeout(() => done(performance.now()))) : requestAnimationFrame(look);
  look();
})`;
const rows = (selector: string, count: number): string =>
  `document.querySelectorAll(${JSON.stringify(selector)}).length >= ${count}`;
const shows = ([view, selector, count]: (typeof VIEWS)[number]): string =>
  `location.hash.includes("${view}") && ${rows(selector, count)} && document.querySelector("h1")?.textContent.toLowerCase() === "${view}"`;

/** Makes the first account. The browser keeps its session. */
async function logIn(browser: Chromium, url: string, code: string): Promise<void> {
  const tab = await browser.coldTab();
  await tab.goTo(url);
  const body = JSON.stringify({ code, username: "ada", password: "correct horse battery staple" });
  const how = { method: "POST", headers: { "content-type": "application/json" }, body };
  const status = await tab.evaluate<number>(
    `fetch("/auth/setup", ${JSON.stringify(how)}).then(({ status }) => status)`,
  );
  if (status !== 201) throw new Error(`the account was answered with ${status}`);
  await tab.close();
}

/** @returns ms from the navigation on */
async function cold(tab: Tab, url: string, holds: string): Promise<number> {
  await tab.goTo(url);
  return tab.evaluate<number>(painted(holds));
}

/** Clicks on the link to the view in the navigation of the page. @returns ms from the click on */
const click = (tab: Tab, view: (typeof VIEWS)[number]): Promise<number> =>
  tab.evaluate<number>(
    `(() => { const from = performance.now(); document.querySelector("nav a[href$='/${view[0]}']").click(); return ${painted(shows(view))}.then((at) => at - from); })()`,
  );

const spread = (all: readonly number[]) => {
  const sorted = all.toSorted((a, b) => a - b).map((ms) => round(ms));
  return { median: sorted[sorted.length >> 1] ?? 0, least: sorted[0] ?? 0, most: sorted.at(-1) ?? 0 };
};

async function measure(folder: string) {
  const config = `limits: { "*": false }, abuse: false,`;
  const world = await openWorld({ folder, config });
  await world.running.stop();
  say(`filling with ${events.toLocaleString("en")} delivered events …`);
  const storage = await sqlite().setup(context(join(folder, "data")));
  await fill(storage, KEY_ID, events, { ms: DAY_MS, spreadMs: DAY_MS - 60_000 });
  await storage.dispose();
  await world.restart();
  // The newest ones by the relay itself, so that there are statistics.
  await pass(world, world.running, 3, { form: "batch", connections: 2 });
  const host = await hostSpeed(world, 3);
  const browser = await openChromium(folder);
  const floors = await serveFloors();
  try {
    const url = `http://127.0.0.1:${world.relay.port}/developers`;
    await logIn(browser, url, (await readFile(join(folder, "data/setup-code"), "utf8")).trim());
    const opened = VIEWS.map(([view]) => ({ view, fromAddress: [] as number[], fromClick: [] as number[] }));
    const floor = FLOORS.map((page) => ({ page, ms: [] as number[] }));
    // The first round warms relay and browser up.
    for (let i = 0; i <= rounds; i++) {
      for (const { page, ms } of floor) {
        const tab = await browser.coldTab();
        ms.push(await cold(tab, `${floors.url}/${page}`, rows("tbody tr", 25)));
        await tab.close();
      }
      for (const [at, view] of VIEWS.entries()) {
        const tab = await browser.coldTab();
        opened[at]?.fromAddress.push(await cold(tab, `${url}#/${HOME}/${view[0]}`, shows(view)));
        // From another view, as people do.
        await click(tab, VIEWS[(at + 1) % VIEWS.length] ?? view);
        opened[at]?.fromClick.push(await click(tab, view));
        await tab.close();
      }
    }
    return {
      events,
      rounds,
      host,
      floor: floor.map(({ page, ms }) => ({ page, fromAddress: spread(ms.slice(1)) })),
      views: opened.map(({ view, fromAddress, fromClick }) => ({
        view,
        fromAddress: spread(fromAddress.slice(1)),
        fromClick: spread(fromClick.slice(1)),
      })),
    };
  } finally {
    floors.close();
    browser.end();
    await world.end();
  }
}

await benchRun({
  longestS: 900,
  json: options.json,
  measure,
  met: ({ views }) => views.every((one) => Math.max(one.fromAddress.median, one.fromClick.median) <= LIMIT_MS),
  print({ host, floor, views }) {
    console.log(`${events.toLocaleString("en")} events stored; ms until the view is painted, median (least … most)`);
    const shown = ({ median, least, most }: ReturnType<typeof spread>) => `${median} (${least} … ${most})`.padEnd(22);
    for (const { view, fromAddress, fromClick } of views)
      console.log(`${view.padEnd(10)} from its address ${shown(fromAddress)} from a click ${shown(fromClick)}`);
    console.log("A page of 25 rows without a relay, in the same browser: what is not the dashboard's own");
    for (const { page, fromAddress } of floor) console.log(`${page.padEnd(10)} from its address ${shown(fromAddress)}`);
    console.log(`This machine: ${hostText(host)}. In its usual time, by that alone, the medians are`);
    for (const { view, fromAddress, fromClick } of views) {
      const usual = ({ median }: typeof fromAddress) => String(round(median / host.slower)).padEnd(22);
      console.log(`${view.padEnd(10)} from its address ${usual(fromAddress)} from a click ${usual(fromClick)}`);
    }
  },
});
