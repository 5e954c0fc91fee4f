/** `relay init`: writes a config file with comments to edit. */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "../support/command.ts";
import { ExitError, EX_OK, EX_REFUSED } from "../support/exit.ts";
import { TEMPLATE } from "../support/config-template.ts";

const init: Command = {
  usage: "init [file]",
  about: "write a config file with comments (./relay.config.ts)",
  options: [{ flags: "--force", about: "replace a file that is there" }],
  async run(given, around) {
    const file = resolve(around.cwd, given.args[0] ?? "relay.config.ts");
    try {
      writeFileSync(file, TEMPLATE, { flag: given.flag("force") ? "w" : "wx" });
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

export const commands: readonly Command[] = [init];
