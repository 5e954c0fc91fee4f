/** `relay secrets rekey`: a new master key while the relay serves, through the API. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { keyFile, keyFolder, MASTER, NEXT_MASTER, OLD_MASTER } from "../../core/runtime/offline.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { shaped } from "../support/ask.ts";
import { openApi } from "../support/client.ts";
import { API_OPTIONS, type Command, type Given, JSON_OPTION, loadFor } from "../support/command.ts";
import { EX_CONFIG, EX_OK, EX_REFUSED, ExitError, usage } from "../support/exit.ts";
import { readSecretText } from "../support/inputs.ts";
import { json } from "../support/output.ts";

const rekey: Command = {
  usage: "secrets rekey",
  about: "seal all secrets by a new master key, while the relay serves",
  options: {
    "--new <file>": "the new key: @file, - for stdin, or env:NAME (a fresh one is made)",
    ...JSON_OPTION,
    ...API_OPTIONS,
  },
  examples: ["relay secrets rekey", "relay secrets rekey --new @new-key"],
  async run(given, io) {
    const api = await openApi(given, io, "stepped-up");
    // Before any file is made: does the relay answer, and accept the token?
    await api.ask("GET", "/relay/status");
    const old = await prepare(given, io);
    let sealed = 0;
    for (;;) {
      const answer = await api.ask("POST", "/relay/rekey");
      const came = shaped(answer, { state: "text", sealed: "number", unreadable: ["text"] });
      sealed = Math.max(sealed, came.sealed);
      if (came.state === "running") {
        if (io.stderr.isTTY) io.stderr.write(`\rrelay: ${sealed} subscriptions sealed again`);
        continue;
      }
      if (io.stderr.isTTY) io.stderr.write("\n");
      if (given.flag("json")) io.print(json({ ...came, sealed }));
      if (came.state === "blocked") {
        const names = came.unreadable.join(", ");
        throw new ExitError(EX_REFUSED, `no key opens the secrets of ${names}: give the older key too, or rotate them`);
      }
      // Names no key that may go: while the relay still seals by the older one, an operator would delete the wrong one.
      if (!given.flag("json"))
        io.print(`${sealed} subscriptions sealed again; all is sealed by the relay's present master key`);
      if (old !== undefined) io.say(`relay: the old key lies in ${old}; delete it when no backup needs it`);
      return EX_OK;
    }
  },
};

/** Puts the new key beside the old one, where that is a file here. Resolves to the path that the old one will have. */
async function prepare(given: Given, io: CliEnvironment): Promise<string | undefined> {
  const chosen = given.text("new");
  if (given.text("url") !== undefined && chosen === undefined) return undefined;
  const { plan } = await loadFor(given, io);
  const folder = keyFolder(plan.dataDir);
  if (plan.keys.master !== undefined || !existsSync(join(folder, MASTER))) {
    if (chosen === undefined) return undefined;
    const how = "set the new one there, and the old one as RELAY_MASTER_KEY_OLDER";
    throw new ExitError(EX_CONFIG, `the master key is given from outside: ${how}`);
  }
  const next = chosen === undefined ? randomBytes(32).toString("base64") : await readKey(chosen, io);
  const path = join(folder, NEXT_MASTER);
  const { text, made } = await keyFile(path, () => next);
  if (chosen !== undefined && text !== next)
    throw new ExitError(EX_CONFIG, `${path} holds another key already: finish with that one first (without --new)`);
  io.say(made ? `relay: made ${path}` : `relay: going on with ${path}`);
  return join(folder, OLD_MASTER);
}

async function readKey(from: string, io: CliEnvironment): Promise<string> {
  const text = (await readSecretText("new", from, io)).trim();
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text))
    throw usage("the new key must be 32 bytes in base64: relay keys prints one");
  return text;
}

export const commands: readonly Command[] = [rekey];
