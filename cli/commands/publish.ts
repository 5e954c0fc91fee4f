/** `relay publish`: publishes one event through the API. */
import { asking, keyPath } from "../support/ask.ts";
import { API_OPTIONS, JSON_OPTION, KEY_OPTION } from "../support/command.ts";
import { readJsonOption } from "../support/inputs.ts";
import { printable } from "../support/output.ts";
import { headersOf } from "../support/subscription-options.ts";

const publish = asking({
  usage: "publish <type>",
  about: "publish an event",
  options: {
    ...KEY_OPTION,
    "--data <json>": "JSON, @file, or - for stdin (null when left out)",
    "--id <id>": "an id of your own: repeats of it are duplicates",
    "--created-at <time>": "when it happened (RFC 3339; now when left out)",
    "--header <header>": 'sent with its deliveries, "Name: value", or @file with one a line; may be repeated',
    "--as-manager": "with an access token instead of a publish token; it stands in the audit",
    ...JSON_OPTION,
    ...API_OPTIONS,
  },
  examples: [`relay publish deposit:paid --key key_1 --data '{"amount":"12.50"}'`],
  async ask(given, io) {
    const managed = given.flag("as-manager");
    const keyId = managed ? undefined : given.key();
    const path = managed ? keyPath(given, "events") : "/events";
    const data = await readJsonOption("data", given.text("data") ?? "null", io);
    const headers = headersOf(given.all("header"), io.cwd);
    const head = { type: given.args[0], keyId, id: given.text("id"), createdAt: given.text("created-at"), headers };
    // The data goes out byte for byte as it was given.
    const body = `${JSON.stringify(head).slice(0, -1)},"data":${data}}`;
    return { method: "POST", path, body, right: managed ? "manage" : "publish" };
  },
  shape: { id: "text", deliveries: "number", duplicate: "flag" },
  show({ id, deliveries, duplicate }, io) {
    const many = deliveries === 1 ? "1 delivery" : `${deliveries} deliveries`;
    io.print(`${printable(id)}  ${duplicate ? "known already" : "accepted"}, ${many}`);
  },
});

export const commands = [publish];
