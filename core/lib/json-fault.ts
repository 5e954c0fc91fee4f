/** Finds where a text stops being JSON (RFC 8259). `JSON.parse` says it of some texts only, and repeats a part of them. */
import { skipSpace } from "./json.ts";

const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.+-])|(?:true|false|null)(?!\w)/y;
/** A piece of a string: short ones, so that no text is too long for the expression. */
const PIECE = /[^"\\\u0000-\u001f]{1,4096}|\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4})/y;

/** Says what may come next. `item` and `name` may also end what they begin. */
type State = "value" | "item" | "name" | "another name" | "colon" | "more";

/**
 * Returns where it stops being JSON, for people: `line 3, column 7`, both from 1 on, or `column 7` of a text that is one line.
 * For a text that `JSON.parse` has refused.
 * Takes time in proportion to the text.
 */
export function faultIn(text: string): string {
  const at = faultAt(text);
  const before = text.slice(0, at);
  const column = `column ${at - before.lastIndexOf("\n")}`;
  return text.trimEnd().includes("\n") ? `line ${before.split("\n").length}, ${column}` : column;
}

function faultAt(text: string): number {
  const open: string[] = [];
  let state: State = "value";
  for (let at = skipSpace(text, 0); ; at = skipSpace(text, at)) {
    const char = text[at];
    if (char === undefined) return at;
    const isValue: boolean = state === "value" || state === "item";
    const isName: boolean = state === "name" || state === "another name";
    let end = at + 1;
    if (isValue && char === "{") {
      open.push("}");
      state = "name";
    } else if (isValue && char === "[") {
      open.push("]");
      state = "item";
    } else if (state === "colon" && char === ":") state = "value";
    else if (state === "more" && char === "," && open.length > 0)
      state = open.at(-1) === "}" ? "another name" : "value";
    else if ((state === "more" || state === "item" || state === "name") && char === open.at(-1)) {
      open.pop();
      state = "more";
    } else if (char === '"' && (isValue || isName)) {
      end = stringEnd(text, at + 1);
      if (text[end - 1] !== '"') return end;
      state = isName ? "colon" : "more";
    } else if (isValue) {
      SCALAR.lastIndex = at;
      if (!SCALAR.test(text)) return at;
      end = SCALAR.lastIndex;
      state = "more";
    } else return at;
    at = end;
  }
}

/** Returns the place behind the closing quote, or that of what cannot stand in a string. @param at behind the opening one */
function stringEnd(text: string, at: number): number {
  for (let end = at; ; end = PIECE.lastIndex) {
    if (text[end] === '"') return end + 1;
    PIECE.lastIndex = end;
    if (!PIECE.test(text)) return end;
  }
}
