/** A folder of a test's own, gone when the test file ends. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

export function testFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "relaybox-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** As many folders as a test file asks for, in one that is gone when the file ends. */
export function testFolders(): () => string {
  const folder = testFolder();
  let made = 0;
  return () => {
    const dir = join(folder, String(made++));
    mkdirSync(dir, { mode: 0o700 });
    return dir;
  };
}
