/** A request whose body has come, and the texts with holes that it fills: `{header.x-github-event}.{body.action}`. */
import { utf8 } from "../../../core/lib/json.ts";
import type { RouteRequest } from "../../../core/ports/route.ts";
import type { Texts } from "./scheme.ts";

const HOLE = /\{(\w+)(?:\.([^{}]+))?\}/;

export interface Hole {
  /** Where the value is: `header`, `path`, `body`, or a thing of the verification's own. */
  readonly of: string;
  /** Its name there; empty where it has none. */
  readonly name: string;
}

/** Reads a text into what is written and its holes. @throws SyntaxError for a brace that is none of a hole */
export function partsOf(text: string): readonly (string | Hole)[] {
  const parts: (string | Hole)[] = [];
  let rest = text;
  for (let match = HOLE.exec(rest); match !== null; match = HOLE.exec(rest)) {
    const [all, of = "", name = ""] = match;
    if (match.index > 0) parts.push(rest.slice(0, match.index));
    parts.push({ of, name: of === "header" ? name.toLowerCase() : name });
    rest = rest.slice(match.index + all.length);
  }
  if (rest !== "") parts.push(rest);
  if (parts.some((part) => typeof part === "string" && /[{}]/.test(part))) throw new SyntaxError(text);
  return parts;
}

/** Fills the holes; `undefined` where a value is missing or empty. */
export type Filled = (arrived: Arrived) => string | undefined;

/** @param texts without problems */
export function filler(texts: Texts): Filled {
  const all = [texts].flat().map(partsOf);
  return (arrived) => {
    for (const parts of all) {
      const values = parts.map((part) => (typeof part === "string" ? part : arrived.value(part)));
      if (values.every((value) => value !== undefined && value !== "")) return values.join("");
    }
    return undefined;
  };
}

const FORM = "application/x-www-form-urlencoded";

export class Arrived {
  readonly request: RouteRequest;
  readonly bytes: Uint8Array;
  /** The media type in lower case, without its parameters; empty where none is said. */
  readonly mediaType: string;
  #text: string | undefined;
  #fields: unknown;

  constructor(request: RouteRequest, bytes: Uint8Array) {
    this.request = request;
    this.bytes = bytes;
    this.mediaType = ((request.header("content-type") ?? "").split(";", 1)[0] as string).trim().toLowerCase();
  }

  get isForm(): boolean {
    return this.mediaType === FORM;
  }

  /** True for a body that says that it is JSON, or says nothing. */
  get isJson(): boolean {
    return this.mediaType === "" || /[/+]json$/.test(this.mediaType);
  }

  /** The body as text. @throws TypeError when it is not UTF-8 */
  get text(): string {
    return (this.#text ??= utf8.decode(this.bytes));
  }

  /** The value that a JSON body has. Only for a verified body. @throws SyntaxError or TypeError when it is no JSON */
  get json(): unknown {
    return (this.#fields ??= JSON.parse(this.text) as unknown);
  }

  /** Returns a value of the request as text; `undefined` where there is none, or it is no plain value. */
  value({ of, name }: Hole): string | undefined {
    if (of === "header") return this.request.header(name);
    if (of === "path") return this.request.params[name];
    return this.#plain(name);
  }

  /** @param path names with dots between them, for a body of JSON; the name of a field, for a form */
  #plain(path: string): string | undefined {
    try {
      if (this.isForm) return new URLSearchParams(this.text).get(path) ?? undefined;
      if (!this.isJson) return undefined;
      let at: unknown = this.json;
      for (const name of path.split("."))
        at = typeof at === "object" && at !== null && Object.hasOwn(at, name) ? at[name as never] : undefined;
      if (typeof at === "string" || typeof at === "boolean") return String(at);
      // Beyond, several numbers would be one text.
      return Number.isSafeInteger(at) ? String(at) : undefined;
    } catch {
      return undefined; // The body is no JSON, which is told when it is stored.
    }
  }
}
