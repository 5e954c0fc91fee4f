/** Says in a sentence what is wrong with data that does not match a schema, and where. */
import type { ErrorObject } from "ajv/dist/2020.js";

export interface DataProblem {
  /** Below the data: `data.items[0].sku`. */
  readonly path: string;
  readonly message: string;
}

type Params = Readonly<Record<string, unknown>>;

const LONGEST_PATH = 200;
const LONGEST_MESSAGE = 300;

const TYPES: Readonly<Record<string, string>> = {
  string: "text",
  number: "a number",
  integer: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  null: "null",
};

/** These end in a finding of their own, after those of the parts that they have tried. */
const JUDGES_PARTS: ReadonlySet<string> = new Set(["anyOf", "oneOf", "contains", "propertyNames"]);

/** By keyword. A message of our own keywords stands in the finding itself. */
const SENTENCES: Readonly<Record<string, (params: Params) => string>> = {
  type: ({ type }) => {
    const types = [type].flat().map((one) => TYPES[String(one)] ?? String(one));
    return `must be ${types.join(" or ")}`;
  },
  required: () => "is missing",
  dependentRequired: ({ property }) => `is missing: it goes with ${String(property)}`,
  additionalProperties: () => "is not in the schema",
  unevaluatedProperties: () => "is not in the schema",
  minimum: ({ limit }) => `must be ${String(limit)} or more`,
  maximum: ({ limit }) => `must be ${String(limit)} or less`,
  exclusiveMinimum: ({ limit }) => `must be more than ${String(limit)}`,
  exclusiveMaximum: ({ limit }) => `must be less than ${String(limit)}`,
  multipleOf: ({ multipleOf }) => `must be a multiple of ${String(multipleOf)}`,
  minLength: ({ limit }) => `must have ${String(limit)} characters or more`,
  maxLength: ({ limit }) => `must have ${String(limit)} characters or fewer`,
  pattern: ({ pattern }) => `must match the pattern ${String(pattern)}`,
  minItems: ({ limit }) => `must have ${String(limit)} items or more`,
  maxItems: ({ limit }) => `must have ${String(limit)} items or fewer`,
  unevaluatedItems: ({ len }) => `must have ${String(len)} items or fewer`,
  items: ({ limit }) => `must have ${String(limit)} items or fewer`,
  minProperties: ({ limit }) => `must have ${String(limit)} members or more`,
  maxProperties: ({ limit }) => `must have ${String(limit)} members or fewer`,
  contains: () => "does not contain the items that the schema asks for",
  propertyNames: ({ propertyName }) => `has a member whose name the schema does not allow: ${String(propertyName)}`,
  anyOf: () => "matches none of the schemas that it may have",
  oneOf: ({ passingSchemas }) =>
    passingSchemas === null
      ? "matches none of the schemas that it may have"
      : "matches more than one of the schemas that it may have",
  not: () => "is what the schema rules out",
  "false schema": () => "is not allowed by the schema",
};

/** @param at what the data is called */
export function dataProblem(errors: readonly ErrorObject[] | null | undefined, at: string): DataProblem {
  const error = errors?.findLast(({ keyword }) => JUDGES_PARTS.has(keyword)) ?? errors?.[0];
  if (error === undefined) return { path: at, message: "does not match the schema" };
  const { instancePath, keyword, message = "does not match the schema" } = error;
  const params = error.params as Params;
  const member = params["missingProperty"] ?? params["additionalProperty"] ?? params["unevaluatedProperty"];
  let path = at;
  for (const name of namesIn(instancePath)) path += /^\d+$/.test(name) ? `[${name}]` : `.${name}`;
  if (typeof member === "string") path += `.${member}`;
  const sentence = SENTENCES[keyword]?.(params) ?? message;
  return { path: short(path, LONGEST_PATH), message: short(sentence, LONGEST_MESSAGE) };
}

/** The names in a JSON pointer. */
export const namesIn = (pointer: string): readonly string[] =>
  pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));

const short = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);
