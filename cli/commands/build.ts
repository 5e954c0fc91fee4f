/** `relay build`: makes one executable that needs no Node, with the config and its plug-ins inside. */
import { constants, existsSync, statSync } from "node:fs";
import { access, mkdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, resolve } from "node:path";
import { isSea } from "node:sea";
import { fileURLToPath } from "node:url";
import manifest from "../../package.json" with { type: "json" };
import { type Command, JSON_OPTION } from "../support/command.ts";
import { EX_CONFIG, EX_UNAVAILABLE, ExitError, usage } from "../support/exit.ts";
import { json } from "../support/output.ts";

const build: Command = {
  usage: "build",
  about: "make one executable that needs no Node",
  options: {
    "--config <file>": "config file to build in (the defaults)",
    "--out <file>": "where to write it (dist/relay)",
    ...JSON_OPTION,
  },
  examples: ["relay build --config relay.config.ts --out ./relay"],
  async run(given, io) {
    const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/[\\/]$/, "");
    const elsewhere = "an executable cannot build another: run this from a checkout or an npm install";
    if (isSea()) throw new ExitError(EX_UNAVAILABLE, elsewhere);
    const asked = given.text("config");
    const config = asked === undefined ? undefined : resolve(io.cwd, asked);
    if (config !== undefined && !isFile(config)) throw new ExitError(EX_CONFIG, `there is no such file: ${config}`);
    const out = resolve(io.cwd, given.text("out") ?? "dist/relay");
    if (out === config) throw usage("--out is the config file, which it would replace");
    // Before the bundling, which takes a while. A folder is made after it, so that a refused config leaves none.
    await refuseUnwritable(out);
    const [{ bundle }, { makeExecutable }, { notices, partsOf, sbom }] = await Promise.all([
      import("../package/bundle.ts"),
      import("../package/executable.ts"),
      import("../package/notices.ts"),
    ]);
    io.say("relay: bundling");
    const made = await bundle(root, config);
    io.say("relay: making the executable");
    const parts = await partsOf(made.files);
    const bytes = await written(out, async () => {
      await mkdir(dirname(out), { recursive: true });
      const size = await makeExecutable(made, out);
      await writeFile(`${out}.sbom.json`, sbom(manifest.version, parts));
      await writeFile(`${out}.licenses.txt`, notices(parts));
      return size;
    });
    const result = { file: out, bytes, bundleSha256: made.hash, packages: parts.length };
    if (given.flag("json")) io.print(json(result));
    else io.print(`${out}: ${(bytes / 1e6).toFixed(0)} MB, ${parts.length} packages, bundle ${made.hash.slice(0, 16)}`);
  },
};

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;

/** @throws ExitError 69 when nothing can be written there, 64 when `out` is a folder */
async function refuseUnwritable(out: string): Promise<void> {
  if (existsSync(out) && !isFile(out)) throw usage(`--out must be a file: ${out} is something else`);
  let above = dirname(out);
  while (!existsSync(above)) above = dirname(above);
  await written(out, async () => {
    if (!statSync(above).isDirectory()) throw new ExitError(EX_UNAVAILABLE, `${above} is no folder`);
    await access(above, constants.W_OK);
  });
}

/** @throws ExitError 69 with the reason of the system: a folder that others own, a full disk */
async function written<T>(out: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (error instanceof ExitError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    const why = typeof code === "string" ? code : `${message.trim()}; is there room on the disk, also in ${tmpdir()}?`;
    throw new ExitError(EX_UNAVAILABLE, `${out} cannot be written: ${why}`, { cause: error });
  }
}

export const commands: readonly Command[] = [build];
