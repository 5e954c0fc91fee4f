// An item that is torn, as a full disk leaves it in the middle of a driver's write, is among the faults of what is stored.
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runHere } from "../support/command-here.ts";
import { testFolder } from "../support/folder.ts";
import { unstorage } from "../../plugins/storage/unstorage.ts";
import { testClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import fsDriver from "unstorage/drivers/fs-lite";

it("relay check --data names a torn item of unstorage(), and ends with 65", async () => {
  const folder = testFolder();
  const base = join(folder, "items");
  writeFileSync(
    join(folder, "relay.config.ts"),
    `import { unstorage } from "relaybox";
import fsDriver from ${JSON.stringify(import.meta.resolve("unstorage/drivers/fs-lite"))};
export default { storage: unstorage(fsDriver({ base: ${JSON.stringify(base)} })) };`,
  );
  const storage = await unstorage(fsDriver({ base })).setup(pluginContext(testClock(), base));
  await storage.commit([{ op: "put", key: "health:sub_1", value: "1" }]);
  await storage.dispose();
  const item = readdirSync(base, { recursive: true, encoding: "utf8" }).find((name) => name.endsWith(".txt"));
  writeFileSync(join(base, item as string), "");
  mkdirSync(join(folder, "data"));
  const ran = await runHere(["check", "--data"], { cwd: folder });
  expect(ran).toMatchObject({ code: 65, stderr: expect.stringContaining("1 item cannot be read") });
  expect(ran.stderr).toContain("key health:sub_1");
});
