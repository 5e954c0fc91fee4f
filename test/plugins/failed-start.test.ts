// A start that fails keeps nothing open: what still ran would keep the process, so that nobody starts it again.
import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { open as openFile, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it, vi } from "vitest";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { redis } from "../../plugins/storage/redis.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { testClock, turn } from "../support/clock.ts";
import { testFolders } from "../support/folder.ts";
import { needs } from "../support/needs.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { startRedis } from "../support/redis.ts";
import { accept } from "../support/storage-child.ts";
import { eventually } from "../support/until.ts";

const fresh = testFolders();
const here = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href);

it("of sqlite() with damaged due lines", async () => {
  const dir = await damagedLines();
  const script = `const { sqlite } = await import(${here("../../plugins/storage/sqlite.ts")});
    const { pluginContext } = await import(${here("../support/plugin-context.ts")});
    const { systemClock } = await import(${here("../../core/runtime/clock.ts")});
    await sqlite().setup(pluginContext(systemClock(), ${JSON.stringify(dir)})).catch(({ fault }) => console.log(fault));`;
  const options = { timeout: 20_000, encoding: "utf8" } as const;
  const file = join(fresh(), "start.mjs");
  writeFileSync(file, script);
  const child = spawnSync(process.execPath, [file], options);
  expect(child).toMatchObject({ signal: null, status: 0, stdout: "broken\n" });
});

/** A folder whose database has no readable page of due lines. */
async function damagedLines(): Promise<string> {
  const dir = fresh();
  const storage = await sqlite().setup(pluginContext(testClock(), dir));
  await storage.commit(accept(1));
  await storage.dispose();
  const path = join(dir, "relay.db");
  const db = new DatabaseSync(path);
  const root = db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'line'").get()?.["rootpage"] as number;
  db.close();
  const bytes = readFileSync(path);
  bytes.fill(0x41, (root - 1) * 4_096, root * 4_096);
  writeFileSync(path, bytes);
  return dir;
}

it("of filesystem() whose journal cannot be begun", async () => {
  const [dir, left] = [fresh(), fresh()];
  const storage = await filesystem({ dir }).setup(pluginContext(testClock(), dir));
  await storage.commit(accept(1));
  // As a crash leaves it: the journal has what the files lack.
  cpSync(dir, left, { recursive: true });
  await storage.dispose();
  const handle = await openFile(left);
  await handle.close();
  const methods = Object.getPrototypeOf(handle) as FileHandle;
  const sick = Object.assign(new Error("EIO"), { code: "EIO" });
  const { write } = methods;
  let writes = 0;
  // The first rewrites the old segment, and the next begins a new one.
  const writing = vi.spyOn(methods, "write").mockImplementation(function (this: FileHandle, ...args: unknown[]) {
    return ++writes > 1 ? Promise.reject(sick) : (Reflect.apply(write, this, args) as never);
  } as never);
  const clock = testClock();
  await expect(filesystem({ dir: left }).setup(pluginContext(clock, left))).rejects.toMatchObject({
    fault: "unavailable",
  });
  writing.mockRestore();
  const segments = readdirSync(join(left, "journal"));
  for (let second = 0; second < 3; second++) {
    await clock.advance(1_000);
    await turn();
  }
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(readdirSync(join(left, "journal"))).toEqual(segments);
  expect(readdirSync(join(left, "items"))).toEqual([]);
});

const missing = needs("redis");

it.skipIf(missing !== undefined)(`of redis() that may not listen to its channels${missing ?? ""}`, async () => {
  await using server = await startRedis();
  await server.command("ACL", "SETUSER", "relay", "on", ">word", "~*", "+@all", "resetchannels");
  const url = server.url.replace("//", "//relay:word@");
  await expect(redis({ url }).setup(pluginContext(testClock(), fresh()))).rejects.toMatchObject({ exitCode: 69 });
  const list = (): Promise<string> => server.command("CLIENT", "LIST");
  await eventually("no connection is left", async () => !(await list()).includes("user=relay"), 5_000);
});
