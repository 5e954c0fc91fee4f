// Reads the fields of TypeScript interfaces with their docstrings: enough of the language for the files of the config.

export interface Field {
  readonly name: string;
  readonly optional: boolean;
  /** The docstring in one line, without its tags. */
  readonly text: string;
  /** The text behind `@default`. */
  readonly default?: string;
  /** The type as it is written; of an inline object, its fields. */
  readonly type: string | readonly Field[];
}

/**
 * The fields of `interface <name>` in a source text, in their order.
 * @throws Error when there is no such interface
 */
export function interfaceFields(source: string, name: string): readonly Field[] {
  const head = new RegExp(`^(?:export )?interface ${name}(?: extends [\\w, ]+)? \\{$`, "m").exec(source);
  if (head === null) throw new Error(`there is no interface ${name}`);
  return fields(source, head.index + head[0].length).found;
}

/** Fields from `at` to the brace that closes them. */
function fields(source: string, at: number): { readonly found: readonly Field[]; readonly end: number } {
  const found: Field[] = [];
  let comment = "";
  let position = at;
  const token = /\s*(?:\/\*\*([\s\S]*?)\*\/|\/\/[^\n]*|readonly (\w+)(\??): |(\};?))/y;
  for (;;) {
    token.lastIndex = position;
    const match = token.exec(source);
    if (match === null) throw new Error(`cannot be read: ${source.slice(position, position + 60)}`);
    position = token.lastIndex;
    const [, doc, name, optional, close] = match;
    if (close !== undefined) return { found, end: position };
    if (doc !== undefined) comment = doc;
    if (name === undefined) continue;
    const type = source[position] === "{" ? fields(source, position + 1) : plainType(source, position);
    found.push({
      name,
      optional: optional === "?",
      ...documentation(comment),
      type: "found" in type ? type.found : type.text,
    });
    position = type.end;
    if (source[position] === ";") position++;
    comment = "";
  }
}

/** A type up to its semicolon, or to the brace behind it; braces inside may hold semicolons of their own. */
function plainType(source: string, at: number): { readonly text: string; readonly end: number } {
  let depth = 0;
  for (let i = at; i < source.length; i++) {
    const character = source[i] as string;
    // The last field of an object in one line has no semicolon.
    if (character === "}" && depth === 0) return { text: source.slice(at, i).trim(), end: i };
    if ("{(<[".includes(character)) depth++;
    else if ("})>]".includes(character) && !(character === ">" && source[i - 1] === "=")) depth--;
    else if (character === ";" && depth === 0) return { text: source.slice(at, i), end: i + 1 };
  }
  throw new Error("a field has no end");
}

/** A docstring's text and default. */
export function documentation(comment: string): { readonly text: string; readonly default?: string } {
  const plain = comment
    .replaceAll(/^\s*\* ?/gm, " ")
    .replaceAll(/\s+/g, " ")
    .trim();
  const [text = "", value] = plain.split(/ ?@default /);
  return { text: text.trim(), ...(value !== undefined && { default: value.trim() }) };
}
