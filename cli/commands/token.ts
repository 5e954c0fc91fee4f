/** `relay token`: signs an access token for the management API with a key of this machine. */
import { ACCESS_OPTION, type Command, CONFIG_OPTIONS, JSON_OPTION, readAccess } from "../support/command.ts";
import { usage } from "../support/exit.ts";
import { isKeyId } from "../../core/model/names.ts";
import { json } from "../support/output.ts";
import { loadFor } from "../support/load-config.ts";

const token: Command = {
  usage: "token",
  about: "sign an access token with the local key",
  options: [
    { flags: "--sub <name>", about: "who it is for (operator)" },
    { flags: "--keys <keys>", about: "ids of the API keys it owns, comma-separated (all)", many: true },
    ACCESS_OPTION,
    { flags: "--mfa", about: "with a second factor shown just now" },
    { flags: "--ttl <seconds>", about: "how long it lives, 1 to 86400 (900)" },
    JSON_OPTION,
    ...CONFIG_OPTIONS,
  ],
  async run(given, io) {
    const ttlSeconds = given.whole("ttl", 1, 86_400) ?? 900;
    const keys = given.list("keys");
    const wrong = keys?.find((key) => key !== "*" && !isKeyId(key));
    if (wrong !== undefined) throw usage(`--keys: ${wrong} is no id of an API key`);
    const sub = given.text("sub");
    const access = readAccess(given);
    const { plan } = await loadFor(given, io);
    const { signToken } = await import("../support/local-relay.ts");
    const text = await signToken(plan, io, {
      mfa: given.flag("mfa"),
      ttlSeconds,
      access,
      ...(sub !== undefined && { sub }),
      ...(keys !== undefined && !keys.includes("*") && { keys }),
    });
    if (given.flag("json")) {
      const expiresAt = new Date(io.clock.now() + ttlSeconds * 1_000).toISOString();
      io.print(json({ token: text, expiresAt }));
    } else io.print(text);
  },
};

export const commands: readonly Command[] = [token];
