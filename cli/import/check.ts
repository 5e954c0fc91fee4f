/** Checks the body of an imported subscription by the API's own schema, before anything is sent. */
import { createBody } from "../../core/api/resources/subscription-schema.ts";
import { fieldMessage } from "../../core/api/http/field-messages.ts";
import { fieldErrors, type SchemaIssue } from "../../core/model/problem.ts";

const schemas = new Map<string, ReturnType<typeof createBody>>();

/** Returns what is wrong, as `field: message`; no message repeats a value. What only the relay knows is left to it. */
export function bodyErrors(body: Readonly<Record<string, unknown>>): readonly string[] {
  const scheme = schemeOf(body["url"]);
  const schema = schemas.get(scheme) ?? createBody([scheme]);
  schemas.set(scheme, schema);
  const result = schema.safeParse(body, { error: fieldMessage });
  if (result.success) return [];
  const issues = result.error.issues as readonly SchemaIssue[];
  return fieldErrors(issues).map(({ path, message }) => (path === "" ? message : `${path}: ${message}`));
}

/** The scheme of the URL, since the relay alone knows its transports; but nothing is sent over plain HTTP. */
function schemeOf(url: unknown): string {
  const [, scheme = "https"] = /^([a-z][a-z0-9+.-]{0,31}):/i.exec(typeof url === "string" ? url : "") ?? [];
  return scheme.toLowerCase() === "http" ? "https" : scheme.toLowerCase();
}
