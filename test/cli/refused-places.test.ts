// Commands that write files, where nothing can be written: what they say, and that what stood there stays.
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { makeExecutable } from "../../cli/package/executable.ts";
import { ends, refused } from "../support/command-stage.ts";
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
    const ran = await run("build", ...args);
    expect(ran, args.join(" ")).toMatchObject({ code, stdout: "" });
    expect(ran.stderr).toContain(reason);
    expect(ran.stderr).not.toContain("bundling");
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
  expect(await run("init", "folder")).toMatchObject(ends(1, "is a folder"));
  expect(await run("init", "--force", "folder")).toMatchObject(ends(1, "is a folder"));
  const plugin = await run("init", "--plugin", "source", "file");
  expect(plugin).toMatchObject(ends(1, "is a file"));
  expect(readdirSync(join(folder, "folder"))).toEqual([]);
});

it("relay init says why it cannot write where it may not even look", async () => {
  symlinkSync("circle", join(folder, "circle"));
  for (const args of [
    ["circle/relay.config.ts"],
    ["--plugin", "source", "circle/my-source"],
    ["--plugin", "auth", "long"],
  ]) {
    const ran = await run("init", ...args.map((arg) => (arg === "long" ? `${"a/".repeat(3_000)}my-auth` : arg)));
    expect(ran).toMatchObject({ code: 1, stdout: "" });
    expect(ran.stderr).toMatch(/cannot be written: .*(?:ELOOP|ENAMETOOLONG)/);
  }
});

it("relay backup takes no name that something has already, whoever may read it", { timeout: 20_000 }, async () => {
  const home = testFolder();
  // A pipe that nobody writes to, and a name that leads nowhere: neither can be opened.
  execFileSync("mkfifo", [join(home, "pipe")]);
  symlinkSync("nowhere", join(home, "link"));
  for (const name of ["pipe", "link"]) {
    expect(await run("backup", join(home, name))).toMatchObject(refused(64, `${name} is there already`));
  }
  expect(readdirSync(home).sort()).toEqual(["link", "pipe"]);
});

it("relay restore gives up on a file without lines", { timeout: 30_000 }, async () => {
  const file = join(folder, "no-lines");
  writeFileSync(file, "");
  truncateSync(file, 400 * 1_048_576);
  expect(await run("restore", file)).toMatchObject(refused(65, "one of its lines is too long"));
});

it("relay dev says that a file is no folder to watch", async () => {
  expect(await run("dev", "file", "--port", "0")).toMatchObject(
    refused(69, `${join(folder, "file")} cannot be watched`),
  );
});
