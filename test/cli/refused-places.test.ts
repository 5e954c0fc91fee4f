// Commands that write files, where nothing can be written: what they say, and that what stood there stays.
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { makeExecutable } from "../../cli/package/executable.ts";
import { runHere } from "../support/command-here.ts";
import { testFolder } from "../support/folder.ts";

const folder = testFolder();
writeFileSync(join(folder, "file"), "");
mkdirSync(join(folder, "folder"));
const run = (...args: string[]) => runHere(args, { cwd: folder });

it("relay build refuses a place for the executable before it bundles anything", async () => {
  writeFileSync(join(folder, "mine.config.ts"), "export default {};");
  for (const [args, code, reason] of [
    [["--out", "folder"], 64, "--out must be a file"],
    [["--out", "file/relay"], 69, "file is no folder"],
    [["--config", "folder", "--out", "new"], 78, "there is no such file"],
    [["--config", "mine.config.ts", "--out", "mine.config.ts"], 64, "--out is the config file"],
  ] as const) {
    const refused = await run("build", ...args);
    expect(refused, args.join(" ")).toMatchObject({ code, stdout: "" });
    expect(refused.stderr).toContain(reason);
    expect(refused.stderr).not.toContain("bundling");
  }
  expect(readFileSync(join(folder, "mine.config.ts"), "utf8")).toBe("export default {};");
});

it("an executable that cannot be made leaves the former one as it was", { timeout: 60_000 }, async () => {
  const home = testFolder();
  writeFileSync(join(home, "relay"), "former");
  // A folder in the way of the part, as a full disk would be.
  mkdirSync(join(home, "relay.part", "in the way"), { recursive: true });
  const bundle = { code: "", assets: {}, files: [], hash: "" };
  await expect(makeExecutable(bundle, join(home, "relay"))).rejects.toThrow();
  expect(readFileSync(join(home, "relay"), "utf8")).toBe("former");
});

it("relay init names the folder or the file that is in its way", async () => {
  expect(await run("init", "folder")).toMatchObject({ code: 1, stderr: expect.stringContaining("is a folder") });
  expect(await run("init", "--force", "folder")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("is a folder"),
  });
  const plugin = await run("init", "--plugin", "source", "file");
  expect(plugin).toMatchObject({ code: 1, stderr: expect.stringContaining("is a file") });
  expect(readdirSync(join(folder, "folder"))).toEqual([]);
});

it("relay init says why it cannot write where it may not even look", async () => {
  symlinkSync("circle", join(folder, "circle"));
  for (const args of [
    ["circle/relay.config.ts"],
    ["--plugin", "source", "circle/my-source"],
    ["--plugin", "auth", "long"],
  ]) {
    const refused = await run("init", ...args.map((arg) => (arg === "long" ? `${"a/".repeat(3_000)}my-auth` : arg)));
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toMatch(/cannot be written: .*(?:ELOOP|ENAMETOOLONG)/);
  }
});

it("relay backup takes no name that something has already, whoever may read it", { timeout: 20_000 }, async () => {
  const home = testFolder();
  // A pipe that nobody writes to, and a name that leads nowhere: neither can be opened.
  execFileSync("mkfifo", [join(home, "pipe")]);
  symlinkSync("nowhere", join(home, "link"));
  for (const name of ["pipe", "link"]) {
    const refused = await run("backup", join(home, name));
    expect(refused).toMatchObject({
      code: 64,
      stdout: "",
      stderr: expect.stringContaining(`${name} is there already`),
    });
  }
  expect(readdirSync(home).sort()).toEqual(["link", "pipe"]);
});

it("relay restore gives up on a file without lines", { timeout: 30_000 }, async () => {
  const file = join(folder, "no-lines");
  writeFileSync(file, "");
  truncateSync(file, 400 * 1_048_576);
  const refused = await run("restore", file);
  expect(refused).toMatchObject({
    code: 65,
    stdout: "",
    stderr: expect.stringContaining("one of its lines is too long"),
  });
});

it("relay migrate copies no storage into itself", async () => {
  const home = testFolder();
  writeFileSync(join(home, "relay.config.ts"), "export default {};");
  mkdirSync(join(home, "data"));
  const refused = await runHere(["migrate", "--to", "relay.config.ts"], { cwd: home });
  expect(refused).toMatchObject({ code: 64, stdout: "", stderr: expect.stringContaining("the source itself") });
  expect(readdirSync(join(home, "data"))).toEqual([]);
});

it("relay dev says that a file is no folder to watch", async () => {
  const refused = await run("dev", "file", "--port", "0");
  expect(refused).toMatchObject({ code: 69, stdout: "" });
  expect(refused.stderr).toContain(`${join(folder, "file")} cannot be watched`);
});
