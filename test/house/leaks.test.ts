// The check of test/setup.ts, seen to fail a file that leaves a server behind and to pass one that does not.
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");

it("fails a test file that leaves a server listening, and names what it left", async () => {
  // Inside the project, so that `vitest` resolves; git does not see it.
  const folder = await mkdtemp(join(root, "node_modules/.leaks-"));
  try {
    const open = `import net from "node:net"; import { it } from "vitest";
      const server = net.createServer();
      it("listens", () => new Promise((done) => server.listen(0, "127.0.0.1", () => done(undefined))));`;
    await writeFile(join(folder, "leaky.test.ts"), open);
    await writeFile(
      join(folder, "clean.test.ts"),
      `${open} import { afterAll } from "vitest"; afterAll(() => { server.close(); });`,
    );
    await writeFile(
      join(folder, "vitest.config.ts"),
      `export default { test: { include: ["*.test.ts"], setupFiles: [${JSON.stringify(join(root, "test/setup.ts"))}], pool: "forks" } };`,
    );
    const out = join(folder, "report.json");
    const args = [
      "run",
      "--root",
      folder,
      "--config",
      join(folder, "vitest.config.ts"),
      "--reporter",
      "json",
      "--outputFile",
      out,
    ];
    const env = { ...process.env, NO_COLOR: "1", VITEST_FS_MODULE_CACHE: "false" };
    // It ends with an error: one of the two files must fail.
    await promisify(execFile)(join(root, "node_modules/.bin/vitest"), args, { env }).catch(() => undefined);
    const report = JSON.parse(await readFile(out, "utf8")) as {
      testResults: { name: string; status: string; message: string }[];
    };
    const file = (name: string) => report.testResults.find((one) => one.name.endsWith(name));
    expect(file("clean.test.ts")?.status).toBe("passed");
    expect(file("leaky.test.ts")?.status).toBe("failed");
    expect(file("leaky.test.ts")?.message).toContain("this file leaves behind: 1 × TCPServerWrap");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
