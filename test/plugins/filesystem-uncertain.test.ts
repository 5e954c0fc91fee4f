// A commit that may have been stored is settled soon: a relay that writes nothing else must not let it come back at a restart
// weeks later.
import { cpSync } from "node:fs";
import { open as openFile, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { testClock } from "../support/clock.ts";
import { testFolder } from "../support/folder.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { accept } from "../support/storage-child.ts";
import { eventually } from "../support/until.ts";

const folder = testFolder();
const sick = (): Error => Object.assign(new Error("EIO"), { code: "EIO" });

async function fileMethods(): Promise<FileHandle> {
  const handle = await openFile(folder);
  await handle.close();
  return Object.getPrototypeOf(handle) as FileHandle;
}

/** Returns the keys that a process that started now would read. */
let copies = 0;
async function keysNow(dir: string): Promise<readonly string[]> {
  const copy = join(folder, `copy-${++copies}`);
  cpSync(dir, copy, { recursive: true });
  const storage = await filesystem({ dir: copy }).setup(pluginContext(testClock(), copy));
  const keys = (await storage.range("event:")).map(({ key }) => key);
  await storage.dispose();
  return keys;
}

it.each(["by time", "by a stop"])(
  "a commit that may have been stored is settled %s, with nothing after it",
  async (how) => {
    const dir = join(folder, how.replaceAll(" ", "-"));
    const clock = testClock();
    const storage = await filesystem({ dir }).setup(pluginContext(clock, folder));
    await storage.commit(accept(1));
    const before = await keysNow(dir);
    // The files have all of it, so nothing else is to be written.
    await eventually("the files have all", async () => {
      await clock.advance(1_000);
      return (await storage.status())["behindKeys"] === 0;
    });
    const methods = await fileMethods();
    using failing = vi.spyOn(methods, "datasync").mockRejectedValueOnce(sick());
    using uncut = vi.spyOn(methods, "truncate").mockRejectedValueOnce(sick());
    await expect(storage.commit(accept(2))).rejects.toMatchObject({ fault: "uncertain" });
    expect([failing.mock.calls.length, uncut.mock.calls.length]).toEqual([1, 1]);
    if (how === "by a stop") await storage.dispose();
    await eventually(
      "it is not there any more",
      async () => {
        await clock.advance(1_000);
        // A file may go while the folder is copied.
        const keys = await keysNow(dir).catch(() => undefined);
        return keys?.length === before.length;
      },
      5_000,
    );
    await storage.dispose();
  },
);

it("a commit that may have been stored is cut off where it stands, also behind a segment that could not be begun", async () => {
  const dir = join(folder, "numbers");
  const clock = testClock();
  const storage = await filesystem({ dir }).setup(pluginContext(clock, folder));
  await storage.commit(accept(1));
  const methods = await fileMethods();
  {
    using unsynced = vi.spyOn(methods, "sync").mockRejectedValueOnce(sick());
    await clock.advance(1_000);
    await eventually("a segment could not be begun", () => unsynced.mock.calls.length > 0);
  }
  using failing = vi.spyOn(methods, "datasync").mockRejectedValueOnce(sick());
  using uncut = vi.spyOn(methods, "truncate").mockRejectedValueOnce(sick());
  await expect(storage.commit(accept(2))).rejects.toMatchObject({ fault: "uncertain" });
  expect([failing.mock.calls.length, uncut.mock.calls.length]).toEqual([1, 1]);
  await storage.commit(accept(3));
  expect(await keysNow(dir)).toEqual(["event:k:000001", "event:k:000003"]);
  await storage.dispose();
});

it("a commit conflicts with no other that was written together with it and failed", async () => {
  const dir = join(folder, "together");
  const storage = await filesystem({ dir }).setup(pluginContext(testClock(), folder));
  await storage.commit([{ op: "put", key: "meta:x", value: "1" }]);
  const methods = await fileMethods();
  using failing = vi.spyOn(methods, "datasync").mockRejectedValueOnce(sick());
  const removed = storage.commit([{ op: "delete", key: "meta:x", if: "1" }]);
  const moved = storage.commit([{ op: "put", key: "meta:x", value: "2", if: "1" }]);
  const never = storage.commit([{ op: "put", key: "meta:x", value: "3", if: "0" }]);
  const ends = await Promise.allSettled([removed, moved, never]);
  expect(failing.mock.calls).toHaveLength(1);
  expect(ends.map((end) => end.status === "rejected" && (end.reason.fault ?? end.reason.name))).toEqual([
    "unavailable",
    "unavailable",
    "unavailable",
  ]);
  await storage.commit([{ op: "put", key: "meta:x", value: "2", if: "1" }]);
  await storage.dispose();
});
