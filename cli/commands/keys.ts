/** `relay keys`: prints fresh keys, for several nodes that share one storage. */
import { randomBytes } from "node:crypto";
import { type Command, JSON_OPTION } from "../support/command.ts";
import { json } from "../support/output.ts";

const keys: Command = {
  usage: "keys",
  about: "print fresh keys for the environment",
  options: [JSON_OPTION],
  async run(given, io) {
    const fresh = {
      RELAY_MASTER_KEY: randomBytes(32).toString("base64"),
      RELAY_SIGNING_KEY: randomBytes(32).toString("base64"),
      RELAY_WEBHOOK_KEY: randomBytes(32).toString("base64"),
      RELAY_PUBLISH_TOKEN: randomBytes(32).toString("base64url"),
    };
    if (given.flag("json")) io.print(json(fresh));
    else for (const [name, value] of Object.entries(fresh)) io.print(`${name}=${value}`);
  },
};

export const commands: readonly Command[] = [keys];
