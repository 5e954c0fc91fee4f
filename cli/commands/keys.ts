/** `relay keys` prints fresh keys for several nodes. `relay token` signs an access token with the local key. */
import { randomBytes } from "node:crypto";
import { isKeyId } from "../../core/model/names.ts";
import { ACCESS_OPTION, type Command, CONFIG_OPTIONS, JSON_OPTION, loadFor, readAccess } from "../support/command.ts";
import { usage } from "../support/exit.ts";
import { json } from "../support/output.ts";

const keys: Command = {
  usage: "keys",
  about: "print fresh keys for the environment",
  options: JSON_OPTION,
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

const token: Command = {
  usage: "token",
  about: "sign an access token with the local key",
  options: {
    "--sub <name>": "who it is for (operator)",
    "--keys <keys>": "ids of the API keys it owns, comma-separated (all)",
    ...ACCESS_OPTION,
    "--mfa": "with a second factor shown just now",
    "--ttl <seconds>": "how long it lives, 1 to 86400 (900)",
    ...JSON_OPTION,
    ...CONFIG_OPTIONS,
  },
  async run(given, io) {
    const ttlSeconds = given.whole("ttl", 1, 86_400) ?? 900;
    const named = given.list("keys") ?? ["*"];
    const wrong = named.find((key) => key !== "*" && !isKeyId(key));
    if (wrong !== undefined) throw usage(`--keys: ${wrong} is no id of an API key`);
    const sub = given.text("sub");
    const access = readAccess(given);
    const { plan } = await loadFor(given, io);
    const { signToken } = await import("../support/local-relay.ts");
    const owned = named.includes("*") ? undefined : named;
    const text = await signToken(plan, io, { mfa: given.flag("mfa"), ttlSeconds, access, sub, keys: owned });
    const expiresAt = new Date(io.clock.now() + ttlSeconds * 1_000).toISOString();
    io.print(given.flag("json") ? json({ token: text, expiresAt }) : text);
  },
};

export const commands: readonly Command[] = [keys, token];
