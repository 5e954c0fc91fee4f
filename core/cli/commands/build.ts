/** `relay build`: makes one executable that needs no Node, with the config and its plug-ins inside. */
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { isSea } from "node:sea";
import { fileURLToPath } from "node:url";
import manifest from "../../../package.json" with { type: "json" };
import type { Command } from "../support/command.ts";
import { JSON_OPTION } from "../support/command.ts";
import { EX_CONFIG, EX_OK, EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { json } from "../support/output.ts";

const build: Command = {
  usage: "build",
  about: "make one executable that needs no Node",
  options: [
    { flags: "--config <file>", about: "config file to build in (the defaults)" },
    { flags: "--out <file>", about: "where to write it (dist/relay)" },
    JSON_OPTION,
  ],
  examples: ["relay build --config relay.config.ts --out ./relay"],
  async run(given, around) {
    const root = fileURLToPath(new URL("../../..", import.meta.url)).replace(/[\\/]$/, "");
    if (isSea()) {
      throw new ExitError(
        EX_UNAVAILABLE,
        "an executable cannot build another: run this from a checkout or an npm install",
      );
    }
    const asked = given.text("config");
    const config = asked === undefined ? undefined : resolve(around.cwd, asked);
    if (config !== undefined && !existsSync(config)) throw new ExitError(EX_CONFIG, `there is no such file: ${config}`);
    const out = resolve(around.cwd, given.text("out") ?? "dist/relay");
    const [{ bundle }, { makeExecutable }, { notices, partsOf, sbom }] = await Promise.all([
      import("../package/bundle.ts"),
      import("../package/executable.ts"),
      import("../package/notices.ts"),
    ]);
    around.say("relay: bundling");
    const made = await bundle(root, config);
    await mkdir(dirname(out), { recursive: true });
    around.say("relay: making the executable");
    const bytes = await makeExecutable(made, out);
    const parts = await partsOf(made.files);
    await writeFile(`${out}.sbom.json`, sbom(manifest.version, parts));
    await writeFile(`${out}.licenses.txt`, notices(parts));
    const result = { file: out, bytes, bundleSha256: made.hash, packages: parts.length };
    if (given.flag("json")) around.print(json(result));
    else
      around.print(
        `${out}: ${(bytes / 1e6).toFixed(0)} MB, ${parts.length} packages, bundle ${made.hash.slice(0, 16)}`,
      );
    return EX_OK;
  },
};

export const commands: readonly Command[] = [build];
