/** A request whose body has come, and the texts with holes that it fills: `{header.x-github-event}.{body.action}`. */
import { utf8 } from "../../../core/lib/json.ts";
import type { RouteRequest } from "../../../core/ports/route.ts";
import type { Texts } from "./scheme.ts";

const HOLE = /(\{\w+(?:\.[^{}]+)?\})/;

/** `of`: where the value is: `header`, `path`, `body`, or a thing of the verification's own; `name`: its name there, or empty. */
export type Hole = { readonly of: string; readonly name: string };

/** Reads a text into what is written and its holes. @throws SyntaxError for a brace that is none of a hole */
export function partsOf(text: string): readonly (string | Hole)[] {
  return text.split(HOLE).flatMap((part, i): (string | Hole)[] => {
    if (i % 2 === 1) {
      const [of = "", ...names] = part.slice(1, -1).split(".");
      return [{ of, name: names.join(".") }];
    }
    if (/[{}]/.test(part)) throw new SyntaxError(text);
    return part === "" ? [] : [part];
  });
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

export class Arrived {
  readonly request: RouteRequest;
  readonly bytes: Uint8Array;
  /** The media type in lower case, without its parameters; empty where none is said. */
  readonly mediaType: string;
  readonly isForm: boolean;
  /** True for a body that says that it is JSON, or says nothing. */
  readonly isJson: boolean;
  #text: string | undefined;
  #json: unknown;

  constructor(request: RouteRequest, bytes: Uint8Array) {
    this.request = request;
    this.bytes = bytes;
    const [type = ""] = (request.header("content-type") ?? "").split(";", 1);
    this.mediaType = type.trim().toLowerCase();
    this.isForm = this.mediaType === "application/x-www-form-urlencoded";
    this.isJson = this.mediaType === "" || /[/+]json$/.test(this.mediaType);
  }

  /** The body as text. @throws TypeError when it is not UTF-8 */
  get text(): string {
    return (this.#text ??= utf8.decode(this.bytes));
  }

  /** The value that a JSON body has. Only for a verified body. @throws SyntaxError or TypeError when it is no JSON */
  get json(): unknown {
    return (this.#json ??= JSON.parse(this.text) as unknown);
  }

  /** Returns a value as text; `undefined` where there is none, or no plain one. What is no JSON is a form: nobody signs the content type. */
  value({ of, name }: Hole): string | undefined {
    if (of !== "body") return of === "header" ? this.request.header(name.toLowerCase()) : this.request.params[name];
    try {
      return this.#inside(name.split("."));
    } catch {
      return new URLSearchParams(Buffer.from(this.bytes).toString()).get(name) ?? undefined;
    }
  }

  #inside(names: readonly string[]): string | undefined {
    let at = this.json;
    for (const name of names)
      at = typeof at === "object" && at !== null && Object.hasOwn(at, name) ? at[name as never] : undefined;
    if (typeof at === "string" || typeof at === "boolean") return String(at);
    // Beyond, several numbers would be one text.
    return Number.isSafeInteger(at) ? String(at) : undefined;
  }
}
