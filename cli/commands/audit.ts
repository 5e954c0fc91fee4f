/** `relay audit`: lists who changed what on a key, newest first, through the API. */
import { keyPath, PAGE_OPTIONS, pageOf, withQuery } from "../support/api-path.ts";
import { openApi } from "../support/client.ts";
import { API_OPTIONS, type Command, JSON_OPTION, KEY_OPTION } from "../support/command.ts";
import { json, printable, printTable } from "../support/output.ts";
import { rows, type Shape } from "../support/response-shape.ts";

interface Line {
  readonly at: string;
  readonly by: string;
  readonly address?: string;
  readonly action: string;
  readonly target: string;
  readonly result: string;
  readonly detail?: string;
}
const LINE: Shape<Line> = { at: "text", by: "text", action: "text", target: "text", result: "text" };

const audit: Command = {
  usage: "audit",
  about: "show who changed what on a key, and what was refused, newest first",
  options: [
    KEY_OPTION,
    { flags: "--action <action>", about: "those of one action (secret.rotated) or of one kind (subscription)" },
    { flags: "--target <id>", about: "those about one event, subscription or account" },
    { flags: "--by <author>", about: "those of one author" },
    ...PAGE_OPTIONS,
    JSON_OPTION,
    ...API_OPTIONS,
  ],
  examples: ["relay audit --key key_1 --json", "relay audit --key key_1 --action subscription"],
  async run(given, io) {
    const searched = { action: given.text("action"), target: given.text("target"), by: given.text("by") };
    const path = withQuery(keyPath(given, "audit"), { ...searched, ...pageOf(given) });
    const answer = await (await openApi(given, io)).ask("GET", path);
    const lines = rows<Line>(answer, LINE);
    const { nextCursor } = answer;
    if (given.flag("json")) io.print(json(lines));
    else if (lines.length === 0)
      io.say(
        Object.values(searched).some((value) => value !== undefined)
          ? "relay: none of the entries looked at is such a one"
          : "relay: nothing was changed on this key yet",
      );
    else {
      const cells = lines.map((one) => [one.at, one.by, one.address, one.action, one.target, one.result, one.detail]);
      io.print(printTable(["at", "by", "from", "what", "of", "result", "detail"], cells));
    }
    if (nextCursor !== undefined) io.say(`relay: there are more: --cursor ${printable(nextCursor)}`);
  },
};

export const commands: readonly Command[] = [audit];
