/** `relay api-keys`: the API keys that are in use, through the API. A key exists as soon as something names it. */
import { openApi } from "../support/client.ts";
import type { Command } from "../support/command.ts";
import { API_OPTIONS, JSON_OPTION } from "../support/command.ts";
import { EX_OK } from "../support/exit.ts";
import { json, printable } from "../support/output.ts";
import { rows } from "../support/response-shape.ts";

const apiKeys: Command = {
  usage: "api-keys",
  about: "list the ids of the API keys that have subscriptions or events",
  options: [
    { flags: "--limit <n>", about: "at most so many, 1 to 200 (50)" },
    { flags: "--cursor <cursor>", about: "go on where the last list ended" },
    JSON_OPTION,
    ...API_OPTIONS,
  ],
  async run(given, around) {
    const query = new URLSearchParams();
    const limit = given.whole("limit", 1, 200);
    const cursor = given.text("cursor");
    if (limit !== undefined) query.set("limit", String(limit));
    if (cursor !== undefined) query.set("cursor", cursor);
    const answer = await (await openApi(given, around)).ask("GET", `/api-keys${query.size > 0 ? `?${query}` : ""}`);
    const keys = rows<{ readonly id: string }>(answer, { id: "text" });
    if (given.flag("json")) around.print(json(keys));
    else if (keys.length === 0) around.say("relay: no key is in use yet; publish or subscribe with --key key_1");
    else for (const { id } of keys) around.print(printable(id));
    if (answer.nextCursor !== undefined) around.say(`relay: there are more: --cursor ${printable(answer.nextCursor)}`);
    return EX_OK;
  },
};

export const commands: readonly Command[] = [apiKeys];
