/** Encodes the text of a record's file: JSON that a person can read, and that yields the value byte for byte. */
import { hash } from "node:crypto";

/** The file is not what was written: torn, changed by hand, or moved here from elsewhere. */
export class DamagedRecord extends Error {
  constructor(why: string) {
    super(why);
    this.name = "DamagedRecord";
  }
}

const sum = (key: string, value: string): string => hash("sha256", `${key}\n${value}`);

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Puts JSON values into the file unchanged, several lines of JSON as a list, any other text as a string. Unchanged text
 * must survive UTF-8.
 */
function body(value: string): string {
  if (!value.isWellFormed()) return `"text": ${JSON.stringify(value)}`;
  if (!value.includes("\n")) return isJson(value) ? `"value": ${value}` : `"text": ${JSON.stringify(value)}`;
  const lines = value.split("\n");
  return lines.every(isJson) ? `"lines": [\n${lines.join(",\n")}\n]` : `"text": ${JSON.stringify(value)}`;
}

export function encodeRecord(key: string, value: string): string {
  return `{\n"key": ${JSON.stringify(key)},\n"sha256": "${sum(key, value)}",\n${body(value)}\n}\n`;
}

/** @throws DamagedRecord when the text is not exactly what `encodeRecord` makes */
export function decodeRecord(text: string): { readonly key: string; readonly value: string } {
  if (text === "") throw new DamagedRecord("the file is empty");
  const keyEnd = text.indexOf("\n", 2);
  const sumEnd = text.indexOf("\n", keyEnd + 1);
  if (!text.startsWith('{\n"key": "') || keyEnd < 0 || sumEnd < 0 || !text.endsWith("\n}\n"))
    throw new DamagedRecord("the file is incomplete");
  const given = /^"sha256": "([0-9a-f]{64})",$/.exec(text.slice(keyEnd + 1, sumEnd))?.[1];
  let key: string;
  let value: string;
  try {
    key = JSON.parse(text.slice('{\n"key": '.length, keyEnd - 1)) as string;
    value = unbody(text.slice(sumEnd + 1, -"\n}\n".length));
  } catch (error) {
    throw new DamagedRecord(error instanceof Error ? error.message : "the file cannot be read");
  }
  if (given !== sum(key, value)) throw new DamagedRecord("the checksum does not match");
  return { key, value };
}

function unbody(text: string): string {
  if (text.startsWith('"value": ')) return text.slice('"value": '.length);
  if (text.startsWith('"text": ')) return JSON.parse(text.slice('"text": '.length)) as string;
  if (!text.startsWith('"lines": [\n') || !text.endsWith("\n]")) throw new SyntaxError("neither a value nor a text");
  const lines = text.slice('"lines": [\n'.length, -"\n]".length).split("\n");
  return lines.map((line, i) => (i < lines.length - 1 ? line.slice(0, -1) : line)).join("\n");
}
