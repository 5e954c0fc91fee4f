/** One request as routes see it. Everything is read straight from Node's request, and only when it is asked for. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Problem } from "../model/problem.ts";
import type { RouteRequest } from "../ports/plugin.ts";
import type { AddressOf } from "./address.ts";

/** One `Call` a request: methods stand on the prototype, so that a request makes no closures of them. */
export class Call implements RouteRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly method: string;
  readonly path: string;
  readonly requestId: string;
  params: Readonly<Record<string, string>>;
  readonly #search: string;
  readonly #addressOf: AddressOf;
  #query: URLSearchParams | undefined;
  #abort: AbortController | undefined;

  constructor(req: IncomingMessage, res: ServerResponse, requestId: string, addressOf: AddressOf) {
    this.req = req;
    this.res = res;
    this.requestId = requestId;
    this.method = req.method ?? "";
    const target = originForm(req.url ?? "");
    const mark = target.indexOf("?");
    this.path = mark < 0 ? target : target.slice(0, mark);
    this.#search = mark < 0 ? "" : target.slice(mark + 1);
    this.params = {};
    this.#addressOf = addressOf;
  }

  get query(): URLSearchParams {
    return (this.#query ??= new URLSearchParams(this.#search));
  }

  get address(): string {
    return this.#addressOf(this.req);
  }

  /** A second `Authorization` makes both worthless: which one a proxy looked at cannot be known. */
  header(name: string): string | undefined {
    const value = this.req.headers[name];
    if (name === "authorization" && value !== undefined && countHeader(this.req, name) > 1) return undefined;
    return typeof value === "string" ? value : value?.join(", ");
  }

  body(maxBytes: number): Promise<Uint8Array> {
    return readBody(this.req, maxBytes);
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      const abort = new AbortController();
      this.#abort = abort;
      if (this.res.destroyed) abort.abort();
      else this.res.once("close", () => abort.abort());
    }
    return this.#abort.signal;
  }
}

/** RFC 9112 §3.2.2: a server takes the absolute form too, whatever host it names. */
function originForm(target: string): string {
  if (target.charCodeAt(0) === 47) return target;
  const absolute = /^https?:\/\/[^/?#]*(\/[^#]*)?$/i.exec(target);
  return absolute ? (absolute[1] ?? "/") : target;
}

/** @param name in lower case */
export function countHeader(req: IncomingMessage, name: string): number {
  const raw = req.rawHeaders;
  let count = 0;
  for (let i = 0; i < raw.length; i += 2) {
    const one = raw[i] as string;
    if (one.length === name.length && one.toLowerCase() === name) count++;
  }
  return count;
}

const tooLarge = (maxBytes: number): Problem =>
  new Problem("PAYLOAD_TOO_LARGE", `Send at most ${maxBytes} bytes.`, { headers: { connection: "close" } });

/**
 * The whole body, refused by its announced length where there is one.
 * @throws Problem PAYLOAD_TOO_LARGE; Gone when the client went away
 */
export function readBody(req: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const announced = req.headers["content-length"];
    if (announced !== undefined && Number(announced) > maxBytes) return reject(tooLarge(maxBytes));
    if (req.destroyed && !req.readableEnded) return reject(new Gone());
    let first: Buffer | undefined;
    let chunks: Buffer[] | undefined;
    let size = 0;
    req.on("data", (chunk: Buffer) => {
      if (size > maxBytes) return;
      size += chunk.length;
      if (size > maxBytes) {
        chunks = first = undefined;
        reject(tooLarge(maxBytes));
      } else if (first === undefined) first = chunk;
      else (chunks ??= [first]).push(chunk);
    });
    // Each comes once, and a promise settles once: `once` would only make an object of each.
    req.on("end", () => resolve(chunks ? Buffer.concat(chunks, size) : (first ?? Buffer.alloc(0))));
    const gone = (): void => {
      if (!req.readableEnded) reject(new Gone());
    };
    req.on("error", gone);
    req.on("close", gone);
  });
}

/** The client went away before its request was whole: there is nobody to answer. */
export class Gone extends Error {
  constructor() {
    super("the client went away");
    this.name = "Gone";
  }
}
