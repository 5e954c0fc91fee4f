/** `relay audit`: lists who changed what on a key, newest first, through the API. */
import { each, keyPath, listing, PAGE_OPTIONS, pageOf, withQuery } from "../support/ask.ts";
import { API_OPTIONS, type Given, JSON_OPTION, KEY_OPTION } from "../support/command.ts";

const searched = (given: Given) => ({
  action: given.text("action"),
  target: given.text("target"),
  by: given.text("by"),
});

const audit = listing({
  usage: "audit",
  about: "show who changed what on a key, and what was refused, newest first",
  options: {
    ...KEY_OPTION,
    "--action <action>": "those of one action (secret.rotated) or of one kind (subscription)",
    "--target <id>": "those about one event, subscription or account",
    "--by <author>": "those of one author",
    ...PAGE_OPTIONS,
    ...JSON_OPTION,
    ...API_OPTIONS,
  },
  examples: ["relay audit --key key_1 --json", "relay audit --key key_1 --action subscription"],
  ask: (given) => ({ path: withQuery(keyPath(given, "audit"), { ...searched(given), ...pageOf(given) }) }),
  shape: each("text", "at", "by", "address?", "action", "target", "result", "detail?"),
  columns: { at: "at", by: "by", from: "address", what: "action", of: "target", result: "result", detail: "detail" },
  none: (given) =>
    Object.values(searched(given)).some((value) => value !== undefined)
      ? "none of the entries looked at is such a one"
      : "nothing was changed on this key yet",
});

export const commands = [audit];
