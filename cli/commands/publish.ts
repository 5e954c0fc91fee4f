/** `relay publish`: publishes one event through the API. */
import { keyPath } from "../support/api-path.ts";
import { openApi } from "../support/client.ts";
import { API_OPTIONS, type Command, JSON_OPTION, KEY_OPTION } from "../support/command.ts";
import { readJsonOption } from "../support/json-option.ts";
import { json, printable } from "../support/output.ts";
import { record } from "../support/response-shape.ts";

interface Accepted {
  readonly id: string;
  readonly deliveries: number;
  readonly duplicate: boolean;
}

const publish: Command = {
  usage: "publish <type>",
  about: "publish an event",
  options: [
    KEY_OPTION,
    { flags: "--data <json>", about: "JSON, @file, or - for stdin (null when left out)" },
    { flags: "--id <id>", about: "an id of your own: repeats of it are duplicates" },
    { flags: "--created-at <time>", about: "when it happened (RFC 3339; now when left out)" },
    { flags: "--as-manager", about: "with an access token instead of a publish token; it stands in the audit" },
    JSON_OPTION,
    ...API_OPTIONS,
  ],
  examples: [`relay publish deposit:paid --key key_1 --data '{"amount":"12.50"}'`],
  async run(given, io) {
    const type = given.args[0] ?? "";
    const key = given.key();
    const data = await readJsonOption("data", given.text("data") ?? "null", io);
    const managed = given.flag("as-manager");
    const api = await openApi(given, io, managed ? "manage" : "publish");
    const path = managed ? keyPath(given, "events") : "/events";
    const keyId = managed ? undefined : key;
    const head = JSON.stringify({ type, keyId, id: given.text("id"), createdAt: given.text("created-at") });
    // The data goes out byte for byte as it was given.
    const answer = await api.ask("POST", path, `${head.slice(0, -1)},"data":${data}}`);
    const accepted = record<Accepted>(answer, { id: "text", deliveries: "number", duplicate: "flag" });
    if (given.flag("json")) io.print(json(accepted));
    else {
      const many = accepted.deliveries === 1 ? "1 delivery" : `${accepted.deliveries} deliveries`;
      io.print(`${printable(accepted.id)}  ${accepted.duplicate ? "known already" : "accepted"}, ${many}`);
    }
  },
};

export const commands: readonly Command[] = [publish];
