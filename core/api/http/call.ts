/** The request that a route handles. It reads from Node's request only what the route uses, to save work on the rest. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { addressGroup } from "../../lib/address.ts";
import type { RouteRequest } from "../../ports/plugin.ts";
import type { AddressOf } from "./client-address.ts";
import { atMost, Gone, HeldBody, overlong, readBody } from "./body.ts";
import type { BodyBudgets } from "./body-budget.ts";

/** Each request has one `Call`. It is a class so that a request makes no closures. */
export class Call implements RouteRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly method: string;
  readonly path: string;
  readonly requestId: string;
  params: Readonly<Record<string, string>>;
  readonly #search: string;
  readonly #addressOf: AddressOf;
  readonly #budgets: BodyBudgets;
  #held: HeldBody | undefined;
  /** The body, once somebody has asked for it: it comes only once, and an auth may read it before its endpoint does. */
  #whole: Promise<Uint8Array> | undefined;
  #query: URLSearchParams | undefined;
  #abort: AbortController | undefined;

  constructor(
    req: IncomingMessage,
    res: ServerResponse,
    requestId: string,
    addressOf: AddressOf,
    budgets: BodyBudgets,
  ) {
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
    this.#budgets = budgets;
  }

  get query(): URLSearchParams {
    return (this.#query ??= new URLSearchParams(this.#search));
  }

  get address(): string {
    return this.#addressOf(this.req);
  }

  /** With two `Authorization` headers, neither counts: a proxy may have looked at the other one. */
  header(name: string): string | undefined {
    const value = this.req.headers[name];
    if (name === "authorization" && value !== undefined && countHeader(this.req, name) > 1) return undefined;
    return typeof value === "string" ? value : value?.join(", ");
  }

  body(maxBytes: number, caller?: string): Promise<Uint8Array> {
    if (this.#whole !== undefined) return this.#whole.then((bytes) => atMost(bytes, maxBytes));
    const refused = overlong(this.req, maxBytes);
    // Nothing of it is read, so one who takes more can still have it.
    if (refused !== undefined) return Promise.reject(refused);
    this.#held ??= new HeldBody(this.#budgets.of(maxBytes), () => {
      const address = addressGroup(this.address);
      return caller === undefined ? [address] : [address, caller];
    });
    return (this.#whole = readBody(this.req, maxBytes, this.#held));
  }

  /** True when the body was refused for want of room: then the rest of it is not read either. */
  get unread(): boolean {
    return this.#held?.refused === true;
  }

  /** Gives back the memory that the body holds. Called when the request is answered. */
  release(): void {
    this.#held?.release();
  }

  /** Its reason is Gone, which is no fault of the relay: a request that was left counts as one that was answered. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      const abort = new AbortController();
      this.#abort = abort;
      const left = (): void => abort.abort(new Gone());
      if (this.res.destroyed) left();
      else this.res.once("close", left);
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
