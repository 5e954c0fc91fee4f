/**
 * Sets up the validator of JSON Schema for data that strangers publish. Each keyword takes time in proportion to the data:
 * those that do not by themselves (`pattern`, `uniqueItems`, `enum`) are replaced. So is `const`, which calls what the data
 * has as `valueOf` or `toString`.
 */
import type { Ajv2020 } from "ajv/dist/2020.js";

/** Keywords of OpenAPI that describe and do not check. */
const ANNOTATIONS = ["example", "externalDocs", "xml", "discriminator"];

/** Loads the library, which a relay without schemas never does. @param extensions keywords that check nothing */
export async function createValidator(extensions: Iterable<string>): Promise<Ajv2020> {
  const [{ Ajv2020 }, { createPattern }] = await Promise.all([import("ajv/dist/2020.js"), import("./pattern.ts")]);
  const linear = Object.assign((pattern: string) => createPattern(pattern), { code: "linearPattern" });
  const ajv = new Ajv2020({
    // One problem an event: to find all of them takes time that a publisher could choose.
    allErrors: false,
    ownProperties: true,
    strictSchema: true,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    // 2020-12 says of `format` that it describes.
    validateFormats: false,
    multipleOfPrecision: 9,
    addUsedSchema: false,
    logger: false,
    code: { regExp: linear },
  });
  ajv.removeKeyword("uniqueItems");
  ajv.addKeyword({
    keyword: "uniqueItems",
    type: "array",
    schemaType: "boolean",
    error: { message: "must not have the same item twice" },
    validate: (unique: boolean, data: readonly unknown[]) =>
      !unique || new Set(data.map(canonical)).size === data.length,
  });
  ajv.removeKeyword("enum");
  ajv.addKeyword({
    keyword: "enum",
    schemaType: "array",
    error: { message: "must be one of the values that the schema lists" },
    compile(values: readonly unknown[]) {
      const listed = new Set(values.map(canonical));
      const objects = values.some((one) => typeof one === "object" && one !== null);
      return (data: unknown) => (objects || typeof data !== "object" || data === null) && listed.has(canonical(data));
    },
  });
  ajv.removeKeyword("const");
  ajv.addKeyword({
    keyword: "const",
    error: { message: "must be the one value that the schema names" },
    compile(value: unknown) {
      const only = canonical(value);
      const object = typeof value === "object" && value !== null;
      return (data: unknown) => (object || typeof data !== "object" || data === null) && canonical(data) === only;
    },
  });
  for (const keyword of [...ANNOTATIONS, ...extensions]) ajv.addKeyword({ keyword });
  return ajv;
}

/** The same text for the same value, whatever the order of its members. */
function canonical(value: unknown): string {
  // JSON reads a number that is too large as infinite, and writes that as null.
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "";
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, one]) => `${JSON.stringify(name)}:${canonical(one)}`).join()}}`;
}
