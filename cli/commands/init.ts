/** `relay init`: writes the repository's commented config, or with `--plugin` the package of a plug-in. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { getAsset, isSea } from "node:sea";
import type { Command } from "../support/command.ts";
import { ExitError, EX_REFUSED, usage } from "../support/exit.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { unwritable, writeNewFile } from "../support/inputs.ts";

/** Its name in the repository, in the package and as an asset of an executable. */
export const CONFIG_FILE = "relay.config.ts";

const init: Command = {
  usage: "init [file]",
  about: "write a config file with comments (./relay.config.ts)",
  options: {
    "--force": "replace a file that is there",
    "--plugin <kind>":
      "write the package of a plug-in into the folder [file]: source, transport, storage, auth or observer",
  },
  async run(given, io) {
    const kind = given.text("plugin");
    if (kind !== undefined) return await writePackage(kind, given.args[0], given.flag("force"), io);
    const file = resolve(io.cwd, given.args[0] ?? CONFIG_FILE);
    writeNewFile(file, commentedConfig(), given.flag("force"));
    io.say(`relay: wrote ${file}`);
    io.say("relay: edit it, then: relay check, relay start");
  },
};

/** @throws ExitError 64 for a kind or a name that cannot be, 1 when the folder is not empty */
async function writePackage(
  kind: string,
  folder: string | undefined,
  force: boolean,
  io: CliEnvironment,
): Promise<void> {
  const { isPackageName, packageFiles, PLUGIN_KINDS } = await import("../package/plugin-packages.ts");
  const known = PLUGIN_KINDS.find((one) => one === kind);
  if (known === undefined) throw usage(`--plugin must be one of: ${PLUGIN_KINDS.join(", ")}`);
  const into = resolve(io.cwd, folder ?? `my-${kind}`);
  const name = basename(into);
  if (!isPackageName(name)) throw usage("the folder names the package: lower-case letters and digits, with - between");
  try {
    if (existsSync(into) && !statSync(into).isDirectory())
      throw new ExitError(EX_REFUSED, `${into} is a file; the package needs a folder of its own`);
    if (!force && existsSync(into) && readdirSync(into).length > 0)
      throw new ExitError(EX_REFUSED, `${into} is not empty; --force writes into it`);
    for (const [file, text] of Object.entries(packageFiles(known, name))) {
      mkdirSync(dirname(join(into, file)), { recursive: true });
      writeFileSync(join(into, file), text);
    }
  } catch (error) {
    throw error instanceof ExitError ? error : unwritable(into, error);
  }
  io.say(`relay: wrote the package ${name} into ${into}`);
  io.say(
    `relay: cd ${folder ?? `my-${kind}`}, then: npm install, npm test (its README says how, where no registry has relaybox)`,
  );
}

const commentedConfig = (): string =>
  isSea() ? getAsset(CONFIG_FILE, "utf8") : readFileSync(new URL(`../../${CONFIG_FILE}`, import.meta.url), "utf8");

export const commands: readonly Command[] = [init];
