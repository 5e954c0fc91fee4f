/** The request that a route handles. It reads from Node's request only what the route uses, to save work on the rest. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { H3Event } from "h3";
import { addressGroup } from "../../lib/address.ts";
import type { LimitVerdict } from "../../limits/limiter.ts";
import { Problem, type ProblemCode } from "../../model/problem.ts";
import type { Access } from "../../model/token.ts";
import type { Principal } from "../../ports/auth.ts";
import type { ContentCoding, RouteRequest } from "../../ports/route.ts";
import type { AddressOf } from "./client-address.ts";
import { announcedBy, atMost, type BodyBudgets, Gone, HeldBody, readBody, SMALL_BODY, tooLarge } from "./body.ts";

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
    const { url = "" } = req;
    const target = url.startsWith("/") ? url : originForm(url);
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

  body(maxBytes: number, caller?: string, coding?: ContentCoding): Promise<Uint8Array> {
    if (this.#whole !== undefined) return this.#whole.then((bytes) => atMost(bytes, maxBytes));
    // Nothing of it is read, so one who takes more can still have it.
    if (announcedBy(this.req) > maxBytes) return Promise.reject(tooLarge(maxBytes));
    const { large, unknown, small } = this.#budgets;
    const budget = caller === undefined ? unknown : large;
    const who = (): readonly string[] => [addressGroup(this.address), caller ?? []].flat();
    this.#held ??= new HeldBody(maxBytes > SMALL_BODY ? budget : small, who);
    return (this.#whole = readBody(this.req, maxBytes, this.#held, coding));
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
  const absolute = /^https?:\/\/[^/?#]*(\/[^#]*)?$/i.exec(target);
  return absolute ? (absolute[1] ?? "/") : target;
}

/** @param name in lower case */
function countHeader(req: IncomingMessage, name: string): number {
  const raw = req.rawHeaders;
  let count = 0;
  for (let i = 0; i < raw.length; i += 2) {
    const one = raw[i] as string;
    if (one.length === name.length && one.toLowerCase() === name) count++;
  }
  return count;
}

/** Refuses a head that two servers could read differently. @throws Problem VALIDATION_FAILED */
export function checkHead({ req, res }: Call): void {
  const { httpVersion } = req;
  const isNew = httpVersion === "1.1";
  const hosts = countHeader(req, "host");
  const coding = req.headers["transfer-encoding"];
  let wanted: string;
  if (!isNew && httpVersion !== "1.0") wanted = "HTTP/1.1";
  else if (hosts > 1 || (hosts === 0 && isNew)) wanted = "one Host header";
  else if (coding === undefined) return;
  // RFC 9112 §6.1: in HTTP/1.0 it may come from a server in between that does not know it.
  else if (!isNew) wanted = "HTTP/1.1 with Transfer-Encoding";
  else if (coding.toLowerCase() === "chunked") return;
  else wanted = "Transfer-Encoding: chunked, or none";
  // At once: what follows on the connection may have been read already, and must not be carried out.
  res.shouldKeepAlive = false;
  throw new Problem("VALIDATION_FAILED", `Send ${wanted}.`, { headers: { Connection: "close" } });
}

/** One request on its way, and what is known of it so far. */
export interface Exchange {
  readonly call: Call;
  /** On the clock that never steps, ms. */
  readonly startedAt: number;
  /** The path of its endpoint, for metrics and log; `none` before it is found. */
  where: string;
  /** Who asks for an operation. */
  principal?: Principal;
  /** Who asks for a route, what it may do, and the names that the limits count: its `identify` found them. */
  caller?: unknown;
  access?: Access;
  counted?: string | readonly string[];
  /** Set when the limits have counted it. */
  verdict?: LimitVerdict | undefined;
  limitHeaders?: Readonly<Record<string, string>> | undefined;
  /** The problem that it is answered with. */
  code?: ProblemCode;
  /** True for a problem that is logged as a refusal, whatever its status. */
  refusal?: boolean;
  /** True while the lines of its fault may be written; undefined while it has none. */
  logged?: boolean;
  /** The status that it is answered with; undefined where its endpoint streams, or where the client is gone. */
  status?: number;
}

export const exchangeOf = (event: H3Event): Exchange => event.context["exchange"] as Exchange;

/** Counts it for nobody: called when the answer is a fault of ours, or of what is behind us. */
export async function giveBack(exchange: Exchange): Promise<void> {
  if (exchange.verdict) exchange.limitHeaders = await exchange.verdict.giveBack();
}
