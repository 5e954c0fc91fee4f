/** Makes the body of `POST /events` of a saved JSON file. */

/**
 * A file with `type` and `data` is a publication; every other file is the data of an event whose type is the file's name.
 * Numbers and spaces reach the receiver as they stand in the file.
 * @throws SyntaxError when the file is no JSON
 */
export function publicationOf(name: string, text: string, keyId: string): string {
  const parsed: unknown = JSON.parse(text);
  if (isPublication(parsed)) {
    if (Object.hasOwn(parsed, "keyId")) return text;
    return text.replace("{", `{"keyId":${JSON.stringify(keyId)},`);
  }
  return `{"type":${JSON.stringify(name.replace(/\.json$/, ""))},"keyId":${JSON.stringify(keyId)},"data":${text.trim()}}`;
}

const isPublication = (value: unknown): value is object =>
  typeof value === "object" &&
  value !== null &&
  !Array.isArray(value) &&
  Object.hasOwn(value, "data") &&
  typeof (value as { readonly type?: unknown }).type === "string";
