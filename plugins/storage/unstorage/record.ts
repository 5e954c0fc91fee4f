/** Encodes the text of a record's file: JSON that a person can read, and that yields the value byte for byte. */
import { hash } from "node:crypto";

const sum = (key: string, value: string): string => hash("sha256", `${key}\n${value}`);

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Puts JSON into the file unchanged, lines of JSON as a list, other text as a string. It must survive UTF-8. */
function body(value: string): string {
  const lines = value.isWellFormed() ? value.split("\n") : [];
  if (lines.length === 0 || !lines.every(isJson)) return `"text": ${JSON.stringify(value)}`;
  return lines.length === 1 ? `"value": ${value}` : `"lines": [\n${lines.join(",\n")}\n]`;
}

export function encodeRecord(key: string, value: string): string {
  return `{\n"key": ${JSON.stringify(key)},\n"sha256": "${sum(key, value)}",\n${body(value)}\n}\n`;
}

/** Returns `undefined` when the text is not exactly what `encodeRecord` makes: torn, or changed by hand. */
export function decodeRecord(text: string): { readonly key: string; readonly value: string } | undefined {
  const found = /^\{\n"key": (".*"),\n"sha256": "([0-9a-f]{64})",\n("(?:value|text|lines)": )([^]*)\n\}\n$/.exec(text);
  if (found === null) return undefined;
  const [, name = "", given, kind, inner = ""] = found;
  try {
    const key = JSON.parse(name) as string;
    const value =
      kind === '"value": '
        ? inner
        : kind === '"text": '
          ? (JSON.parse(inner) as string)
          : inner.slice("[\n".length, -"\n]".length).replaceAll(",\n", "\n");
    return given === sum(key, value) ? { key, value } : undefined;
  } catch {
    return undefined;
  }
}
