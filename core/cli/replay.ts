/** `relay replay`: sends a failed event again, through the API. */
import { openApi } from "./client.ts";
import type { Command } from "./command.ts";
import { API_OPTIONS, JSON_OPTION, KEY_OPTION } from "./command.ts";
import { EX_OK } from "./exit.ts";
import { json } from "./output.ts";
import { record } from "./shape.ts";

const replay: Command = {
  usage: "replay <event>",
  about: "send an event again to those where it failed",
  options: [
    KEY_OPTION,
    { flags: "--subscription <id>", about: "to this one alone; makes its delivery if it had none" },
    { flags: "--force", about: "also where it was delivered" },
    JSON_OPTION,
    ...API_OPTIONS,
  ],
  async run(given, around) {
    const event = encodeURIComponent(given.args[0] ?? "");
    const path = `/api-keys/${encodeURIComponent(given.required("key"))}/events/${event}/replay`;
    const subscriptionId = given.text("subscription");
    const body = {
      ...(subscriptionId !== undefined && { subscriptionId }),
      ...(given.flag("force") && { force: true }),
    };
    const answer = await (await openApi(given, around)).ask("POST", path, body);
    const { deliveries } = record<{ readonly deliveries: number }>(answer, { deliveries: "number" });
    if (given.flag("json")) around.print(json(answer.data));
    else around.print(deliveries === 1 ? "1 delivery goes out again" : `${deliveries} deliveries go out again`);
    return EX_OK;
  },
};

export const commands: readonly Command[] = [replay];
