/** `relay subscriptions transforms` and `test-transform`: which transforms the relay has, and what one makes of an event. */
import { keyPath } from "../support/api-path.ts";
import { openApi } from "../support/client.ts";
import { API_OPTIONS, type Command, JSON_OPTION, KEY_OPTIONS } from "../support/command.ts";
import { EX_OK, EX_REFUSED } from "../support/exit.ts";
import { json, printable } from "../support/output.ts";
import { asking } from "../support/plain.ts";
import { rows } from "../support/response-shape.ts";
import { EVENT_OPTIONS, eventFields } from "../support/tested-event.ts";

interface Tested {
  readonly made: boolean;
  readonly body: string | null;
  readonly error: string | null;
}

const transforms: Command = {
  usage: "subscriptions transforms",
  about: "list the transforms that a subscription may name",
  options: [JSON_OPTION, ...API_OPTIONS],
  async run(given, io) {
    const answer = await (await openApi(given, io)).ask("GET", "/transforms");
    const all = rows<{ readonly name: string }>(answer, { name: "text" });
    if (given.flag("json")) io.print(json(all));
    else if (all.length === 0) io.say("relay: the config has no transforms");
    else for (const { name } of all) io.print(printable(name));
  },
};

const testTransform = asking<Tested>({
  usage: "subscriptions test-transform <subscription>",
  about: "print the body that the transform of a subscription makes of an event; ends with 1 when it makes none",
  options: [
    ...EVENT_OPTIONS,
    { flags: "--transform <name>", about: "a transform in place of the subscription's own; none for no transform" },
    ...KEY_OPTIONS,
  ],
  examples: [
    "relay subscriptions test-transform sub_1 --key key_1 --event evt_01m813fva7j7t5t8rj63v1rpak",
    `relay subscriptions test-transform sub_1 --key key_1 --type deposit:paid --data '{"amount":5}' --transform slack`,
  ],
  async ask(given, io) {
    const parts = [await eventFields(given, io)];
    const name = given.text("transform");
    if (name !== undefined) parts.push(`"transform":${name === "none" ? "null" : JSON.stringify(name)}`);
    const path = keyPath(given, "webhooks", given.args[0], "transform", "test");
    return { method: "POST", path, body: `{${parts.join(",")}}` };
  },
  shape: { made: "flag", body: "any", error: "any" },
  show: ({ body, error }, io) => io.print(printable(body ?? `makes no body: ${error ?? ""}`)),
  after: ({ made }) => (made ? EX_OK : EX_REFUSED),
});

export const commands: readonly Command[] = [transforms, testTransform];
