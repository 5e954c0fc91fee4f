/** Makes one executable of a bundle: this very Node, stripped, with the bundle inside (Node's single executable format). */
import { execFile } from "node:child_process";
import { chmod, copyFile, mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { unfinished } from "../support/signals.ts";
import type { Bundle } from "./bundle.ts";

const run = promisify(execFile);

/** Writes the executable (0755), under another name until it is whole. Resolves to its bytes. */
export async function makeExecutable(bundle: Bundle, out: string): Promise<number> {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major < 25 || (major === 25 && minor < 5)) {
    throw new ExitError(EX_UNAVAILABLE, `building needs Node 26; this is ${process.version}`);
  }
  const folder = await mkdtemp(join(tmpdir(), "relay-build-"));
  const part = `${out}.part`;
  using _folder = unfinished(folder, { folder: true });
  const base = join(folder, "node");
  await copyFile(process.execPath, base);
  await chmod(base, 0o755);
  // The symbols are for people who debug Node; they are a sixth of it. Elsewhere than on Linux stripping breaks signatures.
  if (process.platform === "linux") await run("strip", [base]).catch(() => undefined);
  const main = join(folder, "relay.cjs");
  await writeFile(main, bundle.code);
  const assets: Record<string, string> = {};
  for (const [name, content] of Object.entries(bundle.assets)) {
    assets[name] = join(folder, `asset-${name}`);
    await writeFile(assets[name], content);
  }
  const config = join(folder, "sea.json");
  const sea = {
    main,
    output: part,
    executable: base,
    assets,
    disableExperimentalSEAWarning: true,
    useCodeCache: true,
    // As `cli/relay.mjs` starts it.
    execArgv: ["--max-semi-space-size=16", "--disable-sigusr1"],
  };
  await writeFile(config, JSON.stringify(sea));
  await rm(part, { force: true });
  using _part = unfinished(part);
  await run(process.execPath, ["--build-sea", config], { cwd: folder });
  if (process.platform === "darwin") await run("codesign", ["--sign", "-", part]);
  await chmod(part, 0o755);
  await rename(part, out);
  return (await stat(out)).size;
}
