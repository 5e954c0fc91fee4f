/** The event that a filter or a transform is tested on: `--event`, or `--type` with `--data`. */
import type { CliEnvironment } from "./environment.ts";
import type { Given, Option } from "./command.ts";
import { usage } from "./exit.ts";
import { readJsonOption } from "./json-option.ts";

export const EVENT_OPTIONS: readonly Option[] = [
  { flags: "--event <event>", about: "a stored event of the key" },
  { flags: "--type <type>", about: "the type of an event that is not stored" },
  { flags: "--data <json>", about: "its data: JSON, @file, or - for stdin (null when left out)" },
];

/** Returns the field of the request as JSON; data go out byte for byte as they were given. @throws ExitError 64 */
export async function eventFields(given: Given, io: CliEnvironment): Promise<string> {
  const [eventId, type, data] = [given.text("event"), given.text("type"), given.text("data")];
  if ((eventId === undefined) === (type === undefined)) throw usage("give either --event, or --type and --data");
  if (eventId !== undefined && data !== undefined) throw usage("--data belongs to --type, not to --event");
  return eventId === undefined
    ? `"event":{"type":${JSON.stringify(type)},"data":${await readJsonOption("data", data ?? "null", io)}}`
    : `"eventId":${JSON.stringify(eventId)}`;
}
