/**
 * The fields that a log line may carry. A field that is not named here is not written, whichever room passes it: so a
 * secret, a token, a body or a URL with its query cannot get into a log by carelessness.
 */
export const LOG_FIELDS: ReadonlySet<string> = new Set([
  // who and what
  "requestId",
  "eventId",
  "type",
  "keyId",
  "subscriptionId",
  "deliveryId",
  "attemptId",
  "traceId",
  "ordinal",
  "sub",
  "action",
  "source",
  "transport",
  "storage",
  "plugin",
  "kind",
  "driver",
  "name",
  "node",
  "job",
  "part",
  "thread",
  "tick",
  "version",
  // how it went
  "attempt",
  "cycle",
  "number",
  "status",
  "statusCode",
  "outcome",
  "result",
  "code",
  "reason",
  "error",
  "fault",
  "stage",
  "duplicate",
  "durability",
  "detail",
  "why",
  "signal",
  "exitCode",
  // how much and when
  "count",
  "items",
  "wanted",
  "connected",
  "keys",
  "deliveries",
  "events",
  "matched",
  "replayed",
  "removed",
  "bytes",
  "waiting",
  "left",
  "leased",
  "durationMs",
  "waitMs",
  "lagMs",
  "nextAttemptAt",
  "dueAt",
  "until",
  // where
  "method",
  "path",
  "route",
  "address",
  "host",
  "port",
  "url", // without its query
  "target",
  "item",
  "key", // of the storage
  "file",
  "folder",
]);

/** Longest text of one field; a longer one is cut. */
const MAX_FIELD = 500;

export const cut = (text: string): string => (text.length > MAX_FIELD ? `${text.slice(0, MAX_FIELD)}…` : text);

type Fields = Record<string, unknown>;

/** The fields as they may be written: texts cut, URLs without their query, the names of all others in `omitted`. */
export function allowed(fields: Fields): Fields {
  for (const name in fields) if (!isPlain(name, fields[name])) return cleaned(fields);
  return fields;
}

/** Whether it may be written as it is. Nearly every field may, so that a line is not copied to be checked. */
const isPlain = (name: string, value: unknown): boolean =>
  value === undefined ||
  (LOG_FIELDS.has(name) && (typeof value !== "string" || (name !== "url" && value.length <= MAX_FIELD)));

function cleaned(fields: Fields): Fields {
  const made: Fields = {};
  const omitted: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    if (!LOG_FIELDS.has(name)) omitted.push(name);
    else made[name] = typeof value !== "string" ? value : cut(name === "url" ? value.replace(/[?#].*$/s, "") : value);
  }
  return omitted.length === 0 ? made : { ...made, omitted: omitted.join(" ").slice(0, MAX_FIELD) };
}
