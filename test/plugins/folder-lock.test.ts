// The lock of a folder, met while its holder writes to it: also then the folder is in use, and not unusable.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { lockFolder } from "../../plugins/storage/embedded/lock.ts";
import { testFolder } from "../support/folder.ts";

it("refuses a folder with 75 while another process is taking it", async () => {
  const dir = testFolder();
  const other = new DatabaseSync(join(dir, "lock"));
  other.exec("BEGIN EXCLUSIVE");
  await expect(lockFolder(dir)).rejects.toMatchObject({ exitCode: 75 });
  other.close();
  (await lockFolder(dir)).release();
});
