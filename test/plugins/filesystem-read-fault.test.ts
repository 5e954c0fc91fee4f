// A read that the operating system refuses for a while: what it could not read stays where it is.
import { readdirSync } from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { testClock } from "../support/clock.ts";
import { testFolder } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";

const folder = testFolder();
const promises = createRequire(import.meta.url)("node:fs/promises") as Record<string, (...args: never[]) => unknown>;
const real = { ...promises };

/** From here on this call fails for all paths that end so. */
function fail(call: "open" | "readdir", end: RegExp, code: string): void {
  const act = real[call] as (...args: unknown[]) => unknown;
  promises[call] = ((path: string, ...rest: unknown[]) =>
    end.test(path)
      ? Promise.reject(Object.assign(new Error(`${code}: ${call}`), { code }))
      : act(path, ...rest)) as never;
  syncBuiltinESMExports();
}
function heal(): void {
  promises["open"] = real["open"] as never;
  promises["readdir"] = real["readdir"] as never;
  syncBuiltinESMExports();
}
afterEach(heal);

const LONG = `eventid:key_1:${"Z9".repeat(60)}`;

async function filled(dir: string): Promise<void> {
  const storage = await filesystem({ dir }).setup(pluginContext(testClock(), dir));
  await storage.commit([
    // A start counts the due lines, and looks no further.
    { op: "put", key: "due:sub_1:1767225600000:01kdvdpb10e72n22bakfam8q74", value: "key_1 1 0 0" },
    { op: "put", key: LONG, value: "1" },
    { op: "put", key: "eventid:key_1:short", value: "2" },
  ]);
  await storage.dispose();
}

describe("filesystem() while the operating system refuses to read", () => {
  it("leaves a record whose name is too long for one file where it is, and finds it when it can read again", async () => {
    const dir = join(folder, "long");
    await filled(dir);
    const storage = await filesystem({ dir }).setup(pluginContext(testClock(), dir));
    fail("open", /-\/[^/]+\.json$/, "EMFILE");
    await expect(storage.range("eventid:")).rejects.toMatchObject({ name: "StorageError", fault: "unavailable" });
    heal();
    expect((await storage.range("eventid:")).map(({ key }) => key)).toEqual([LONG, "eventid:key_1:short"].toSorted());
    expect(await storage.getItem(LONG)).toBe("1");
    expect(readdirSync(join(dir, "quarantine"))).toEqual([]);
    await storage.dispose();
  });

  it("says unavailable when a folder cannot be listed, not what the system call was", async () => {
    const dir = join(folder, "listed");
    await filled(dir);
    fail("readdir", /items\/eventid$/, "EIO");
    const start = filesystem({ dir }).setup(pluginContext(testClock(), dir));
    await expect(start).rejects.toMatchObject({ name: "StorageError", fault: "unavailable" });
    heal();
    const storage = await filesystem({ dir }).setup(pluginContext(testClock(), dir));
    expect(await storage.range("eventid:")).toHaveLength(2);
    await storage.dispose();
  });
});
