/** `relay init`: writes a config file with comments to edit. It is the one in the repository, which every build carries. */
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { getAsset, isSea } from "node:sea";
import type { Command } from "../support/command.ts";
import { ExitError, EX_OK, EX_REFUSED } from "../support/exit.ts";

/** Its name in the repository, in the package and as an asset of an executable. */
export const CONFIG_FILE = "relay.config.ts";

const init: Command = {
  usage: "init [file]",
  about: "write a config file with comments (./relay.config.ts)",
  options: [{ flags: "--force", about: "replace a file that is there" }],
  async run(given, around) {
    const file = resolve(around.cwd, given.args[0] ?? CONFIG_FILE);
    try {
      writeFileSync(file, commentedConfig(), { flag: given.flag("force") ? "w" : "wx" });
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code === "EEXIST") throw new ExitError(EX_REFUSED, `${file} is there already; --force replaces it`);
      throw new ExitError(EX_REFUSED, `${file} cannot be written (${code ?? String(error)})`, { cause: error });
    }
    around.say(`relay: wrote ${file}`);
    around.say("relay: edit it, then: relay check, relay start");
    return EX_OK;
  },
};

const commentedConfig = (): string =>
  isSea() ? getAsset(CONFIG_FILE, "utf8") : readFileSync(new URL(`../../../${CONFIG_FILE}`, import.meta.url), "utf8");

export const commands: readonly Command[] = [init];
