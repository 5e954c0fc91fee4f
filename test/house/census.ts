// Prints how many files and functions of the product one warm event runs through on the main thread: sqlite(), the default
// config, one subscription, whose receiver answers 200; and how many until the 202 alone. With `--list`, which.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pass } from "node:timers/promises";
import { startChild } from "../support/child-relay.ts";
import { startReceiver } from "../support/receiver.ts";

const WARM = 200;
const EVENTS = 4;
/**
 * The rest before each event. What the relay remembers of its room and backlog (250 ms) is old by then; what is to be delivered
 * also finds that nobody watches the deadline (1 s) of the event before.
 */
const REST_MS = { delivered: 1_000, accepted: 400 };
/** Longer than the log keeps a line (100 ms), so that what follows the end of an event belongs to it. */
const AFTER_MS = 250;

const folder = mkdtempSync(join(tmpdir(), "relay-census-"));
const file = join(folder, "called.json");
await using receiver = await startReceiver({ keepAliveMs: 60_000 });
await using relay = await startChild(folder, {
  config: 'log: { level: "info" },',
  env: { NODE_OPTIONS: `--import=${new URL("coverage.mjs", import.meta.url).href}`, CENSUS_FILE: file },
});
// A step that hangs ends the relay, and with it whoever waits for it.
const limit = setTimeout(() => relay.running.kill("SIGKILL"), 60_000);
await relay.call("POST", "/api-keys/subscribed/webhooks", { url: receiver.url(), events: ["*"] });

let taken = 0;
/** Returns what has been called since the last time. */
async function take(): Promise<ReadonlySet<string>> {
  process.kill(relay.pid, "SIGUSR2");
  await relay.running.waitFor(new RegExp(`census ${++taken}\\.\n`));
  return new Set(JSON.parse(readFileSync(file, "utf8")) as string[]);
}

/** Resolves to the 202. */
async function publish(keyId: string, id: string): Promise<void> {
  const { status, json } = await relay.publish({ keyId, id, type: "order:paid", data: {} });
  if (status !== 202) throw new Error(`${status} ${JSON.stringify(json)}`);
}

/** Returns what each of several events runs through: what the relay does by the clock falls beside one or the other. */
async function census(keyId: string, end: string, restMs: number): Promise<readonly string[]> {
  let all: ReadonlySet<string> | undefined;
  for (let n = 0; n < EVENTS; n++) {
    await pass(restMs);
    await take();
    await publish(keyId, `${keyId}:${n}`);
    await relay.running.waitFor(new RegExp(`"${keyId}:${n}".*"msg":"${end}".*\n`));
    await pass(AFTER_MS);
    const called = await take();
    all = all?.intersection(called) ?? called;
  }
  return [...(all ?? [])].toSorted();
}

for (let n = 0; n < WARM; n++) await Promise.all([publish("subscribed", `warm:${n}`), publish("nobody", `warm:${n}`)]);
await receiver.waitFor(WARM);
const lists = {
  delivered: await census("subscribed", "attempt", REST_MS.delivered),
  accepted: await census("nobody", "accepted", REST_MS.accepted),
};
clearTimeout(limit);
rmSync(folder, { recursive: true });
const counted = Object.entries(lists).flatMap(([name, called]) => [
  [`${name} files`, new Set(called.map((one) => one.split(" ")[0])).size],
  [`${name} functions`, called.length],
]);
const shown = process.argv.includes("--list") ? lists : Object.fromEntries(counted);
process.stdout.write(`${JSON.stringify(shown)}\n`);
