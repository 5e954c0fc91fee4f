import { EVENT } from "../../core/model/schema.ts";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { pluginContext } from "../support/plugin-context.ts";

const FILES = 10;
const EVENTS = 1_500;
const CHILD = new URL("../support/spool-child.ts", import.meta.url).pathname;

/** Runs the child until something moved, or for a while; kills it in the middle of whatever it does. */
async function killOnce(dataDir: string, dir: string, afterMs: number): Promise<void> {
  const child = spawn(process.execPath, [CHILD, dataDir, dir], { stdio: ["pipe", "inherit", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const before = (await readdir(join(dir, "done"))).length;
  for (let tries = 0; tries < 500; tries++) {
    if ((await readdir(join(dir, "done"))).length > before) break;
    await sleep(10);
  }
  await sleep(afterMs);
  child.kill("SIGKILL");
  await ended;
}

it("a process killed again and again stores every event of every file once", async () => {
  const root = await mkdtemp(join(tmpdir(), "spool-kill-"));
  const [dataDir, dir] = [join(root, "data"), join(root, "drop")];
  await mkdir(dataDir, { mode: 0o700 });
  await mkdir(join(dir, "done"), { recursive: true });
  for (let file = 0; file < FILES; file++) {
    const line = (i: number): string => `{"type":"deposit:paid","keyId":"key_1","data":${file * EVENTS + i}}\n`;
    await writeFile(
      join(dir, `${String(file).padStart(2, "0")}.ndjson`),
      Array.from({ length: EVENTS }, (_, i) => line(i)).join(""),
    );
  }
  for (let kills = 0; (await readdir(join(dir, "done"))).length < FILES; kills++) {
    expect(kills).toBeLessThan(FILES + 1);
    await killOnce(dataDir, dir, (kills * 7) % 23);
  }
  const clock = systemClock();
  const storage = await sqlite({ dir: dataDir }).setup(pluginContext(clock, dataDir));
  const seen = new Map<number, number>();
  for (let after: string | undefined; ;) {
    const page = await storage.range("event:", { after, limit: 1_000 });
    for (const { value } of page) {
      const { data } = JSON.parse(EVENT.orThrow(value).body) as { data: number };
      seen.set(data, (seen.get(data) ?? 0) + 1);
    }
    if (page.length < 1_000) break;
    after = page.at(-1)?.key;
  }
  await storage.dispose();
  await rm(root, { recursive: true });
  expect(seen.size).toBe(FILES * EVENTS);
  expect([...seen].filter(([, times]) => times !== 1)).toEqual([]);
}, 240_000);
