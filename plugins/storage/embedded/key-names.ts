/**
 * Encodes keys as names where a key cannot be used unchanged. Names can be decoded, are safe on every file system, and
 * differ even where case is folded. `:` becomes `+`, `A` becomes `=a`, anything unusual `=` and two hex digits.
 */

const PLAIN = /^[a-z0-9_~.-]$/;

function escape(char: string): string {
  if (char === ":") return "+";
  if (char >= "A" && char <= "Z") return `=${char.toLowerCase()}`;
  return `=${char.charCodeAt(0).toString(16).padStart(2, "0")}`;
}

export function encodeName(text: string): string {
  let name = "";
  for (let i = 0; i < text.length; i++) {
    const char = text[i] as string;
    name += PLAIN.test(char) && !(char === "." && i === 0) ? char : escape(char);
  }
  return name;
}

/** Returns `undefined` when `encodeName` does not make such a name. */
export function decodeName(name: string): string | undefined {
  let text = "";
  for (let i = 0; i < name.length; i++) {
    const char = name[i] as string;
    if (char === "+") text += ":";
    else if (char !== "=") text += char;
    else if (/[a-z]/.test(name[i + 1] ?? "")) text += (name[++i] as string).toUpperCase();
    else {
      text += String.fromCharCode(Number.parseInt(name.slice(i + 1, i + 3), 16) || 0);
      i += 2;
    }
  }
  return encodeName(text) === name ? text : undefined;
}
