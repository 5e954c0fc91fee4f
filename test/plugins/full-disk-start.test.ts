// A start on a full disk: what is stored can be read and delivered, and writing goes on once there is room.
import { cpSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Storage } from "../../core/ports/storage.ts";
import { filesystem } from "../../plugins/storage/filesystem.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { smallDisk } from "../support/small-disk.ts";

const opened: Storage[] = [];
afterEach(async () => {
  for (const storage of opened.splice(0)) await storage.dispose();
});

describe.each(Object.entries({ sqlite, filesystem }))("a start of %s on a full disk", (_, plugin) => {
  it.for(["a clean end", "a kill"])("after %s reads what there is, or says why not", async (end, { skip }) => {
    const disk = smallDisk(8 << 20);
    if (typeof disk === "string") return skip(disk);
    using _ = disk;
    const open = async (dir: string): Promise<Storage> => {
      const storage = await plugin().setup(pluginContext(testClock(), dir));
      opened.push(storage);
      return storage;
    };
    const [lived, killed] = [join(disk.folder, "lived"), join(disk.folder, "killed")];
    const first = await open(lived);
    await first.commit([
      { op: "put", key: "event:k:1", value: "one" },
      { op: "put", key: "due:sub_1:0000000000001:dlv_1", value: "{}" },
    ]);
    cpSync(lived, killed, { recursive: true });
    await first.dispose();
    disk.fill();
    const place = end === "a kill" ? killed : lived;
    if (plugin === sqlite && end === "a clean end") {
      // SQLite cannot read without the index of its log, which a clean end removes.
      await expect(open(place)).rejects.toThrow(`the disk of ${place} may be full: 0 bytes are free`);
      return;
    }
    const again = await open(place);
    expect(await again.getItem("event:k:1")).toBe("one");
    expect(await again.status()).toMatchObject({ waiting: 1 });
    disk.clear();
    await again.commit([{ op: "put", key: "event:k:2", value: "two" }]);
  });
});
