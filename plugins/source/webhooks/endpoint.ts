/** Takes the webhooks of one path: verifies, stores, and only then answers 200. */
import { within } from "../../../core/lib/within.ts";
import { MAX_BATCH_BYTES, MAX_EVENT_BYTES } from "../../../core/model/event.ts";
import { isLater, Problem } from "../../../core/model/problem.ts";
import { isoTime } from "../../../core/lib/time.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Route, RouteReply, RouteRequest } from "../../../core/ports/route.ts";
import type { Accept, Accepted, SourceInfo } from "../../../core/ports/source.ts";
import { Arrived, filler, type Filled } from "./arrived.ts";
import { eventsOf, type Reading } from "./event.ts";
import type { Provider } from "./scheme.ts";
import type { CheckRequest } from "./verify.ts";

/** What the endpoints of a source share. */
export interface Desk {
  accept: Accept | undefined;
  info: SourceInfo;
  readonly underWay: Set<Promise<unknown>>;
  readonly ctx: Pick<PluginContext, "clock" | "log" | "metrics">;
  /** Says whether a line about a refusal may be written for this address group or path. */
  readonly mayLog: (group: string) => boolean;
}

export interface Endpoint extends Reading, Pick<Provider, "challenge"> {
  readonly path: string;
  /** The key as the config gives it, and what verifies, for people. */
  readonly key: string;
  readonly verifiedBy: string;
  readonly check: CheckRequest;
  readonly timeoutMs: number;
  /** Answers a 401 with a challenge that a client of `basic()` knows. */
  readonly scheme: string;
  /** Origins whose handshake is answered; an empty list: every one; `undefined`: none. */
  readonly origins: readonly string[] | undefined;
}

/** What becomes of a request, as `relay_source_webhooks_total` counts it. */
type Result = "accepted" | "repeated" | "answered" | "refused" | "invalid" | "later";

export const WEBHOOKS = "relay_source_webhooks_total";
/** What the log names it. */
export const SOURCE = "webhooks";

const TEXT = { "Content-Type": "text/plain; charset=utf-8" };

export function endpointOf(endpoint: Endpoint, desk: Desk) {
  const { path, challenge, check } = endpoint;
  const { clock, log, metrics } = desk.ctx;
  const counts: Record<Result, number> = { accepted: 0, repeated: 0, answered: 0, refused: 0, invalid: 0, later: 0 };
  let last: { readonly why: string; readonly at: number } | undefined;
  const asks = challenge && { of: filler(challenge.of), answer: filler(challenge.answer) };

  function count(result: Result): void {
    counts[result]++;
    metrics.count(WEBHOOKS, { path, result });
  }

  /** Every refusal is answered alike: the reason is for the log and the page. */
  function refused({ address, requestId }: RouteRequest, why: string): Problem {
    count("refused");
    last = { why, at: clock.now() };
    if (desk.mayLog(address)) log.warn("a webhook is refused", { source: SOURCE, path, why, address, requestId });
    return new Problem("UNAUTHENTICATED", "The request is not verified.", {
      headers: { "WWW-Authenticate": `${endpoint.scheme} realm="relay"` },
    });
  }

  /** Counts what a verified request fails by, and has the operator see it. */
  function failed(error: unknown, { requestId }: RouteRequest): unknown {
    const later = isLater(error);
    count(later ? "later" : "invalid");
    if (later || !(error instanceof Problem)) return error;
    const { code, detail, extras } = error;
    const found = extras.errors?.map(({ path: at, message }) => `${at} ${message}`.trim()).join("; ");
    const why = found === undefined || found === "" ? detail : `${detail} ${found}`;
    last = { why: `${code}: ${why}`, at: clock.now() };
    if (desk.mayLog(path)) log.warn("a webhook cannot be stored", { source: SOURCE, path, code, why, requestId });
    return error;
  }

  async function store(arrived: Arrived, began: number, admittedAt: number | undefined): Promise<RouteReply> {
    const { keyId, publications } = eventsOf(arrived, endpoint);
    if (desk.accept === undefined) throw closed();
    const { requestId } = arrived.request;
    const admitted = admittedAt === undefined ? {} : { admittedAt };
    // The request may name another key, as an extension of a CloudEvent: it is not its sender's to choose.
    const work = desk.accept({ publications, keys: [keyId], requestId, source: SOURCE, ...admitted });
    desk.underWay.add(work);
    const over = (): void => void desk.underWay.delete(work);
    work.then(over, over);
    const left = endpoint.timeoutMs - (clock.monotonic() - began);
    try {
      if (await within(clock, left, work)) return stored(await work);
    } catch (error) {
      // The id is the provider's: what comes under it again is a repeat, also where it is written in another way.
      const again = error instanceof Problem && error.code === "IDEMPOTENCY_MISMATCH" && publications.length === 1;
      if (again) return repeated(arrived.request);
      throw error;
    }
    throw new Problem("STORAGE_UNAVAILABLE", "Not stored in time. Send it again.", { retryAfter: 5 });
  }

  function stored(accepted: readonly Accepted[]): RouteReply {
    const [first] = accepted;
    for (const { duplicate } of accepted) count(duplicate ? "repeated" : "accepted");
    const headers = { ...TEXT, "Relay-Durability": desk.info.durability };
    return { status: 200, headers: first === undefined ? headers : { ...headers, "Relay-Event-Id": first.id } };
  }

  async function handle(request: RouteRequest): Promise<RouteReply> {
    const began = clock.monotonic();
    const checkBody = check(request);
    if (typeof checkBody === "string") throw refused(request, checkBody);
    if (request.header("content-encoding") !== undefined)
      throw new Problem("UNSUPPORTED_MEDIA_TYPE", "Send the body without Content-Encoding.");
    const admittedAt = desk.info.admit?.();
    const bytes = await request.body(endpoint.cloudEvents ? MAX_BATCH_BYTES : MAX_EVENT_BYTES);
    const arrived = new Arrived(request, bytes);
    const why = checkBody(arrived);
    if (why !== undefined) throw refused(request, why);
    if (asks !== undefined && asks.of(arrived) === challenge?.is) {
      count("answered");
      return { status: 200, headers: TEXT, body: asks.answer(arrived) ?? "" };
    }
    try {
      return await store(arrived, began, admittedAt);
    } catch (error) {
      throw failed(error, request);
    }
  }

  function repeated({ requestId }: RouteRequest): RouteReply {
    count("repeated");
    if (desk.mayLog(path)) log.info("a webhook comes again with other content", { source: SOURCE, path, requestId });
    return { status: 200, headers: TEXT };
  }

  /** The handshake of CloudEvents (https://github.com/cloudevents/spec, HTTP webhook §4): whether this origin may send. */
  async function handshake(request: RouteRequest): Promise<RouteReply> {
    const origin = request.header("webhook-request-origin");
    const { origins = [] } = endpoint;
    const allowed = origin !== undefined && (origins.length === 0 || origins.includes(origin));
    if (allowed) count("answered");
    const headers = {
      Allow: "POST, OPTIONS",
      ...(allowed && { "WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*" }),
    };
    return { status: 200, headers: { ...TEXT, ...headers } };
  }

  const routes: Route[] = [{ method: "POST", path, handle }];
  if (endpoint.origins !== undefined) routes.push({ method: "OPTIONS", path, handle: handshake });
  return {
    routes,
    figures: () => ({
      source: SOURCE,
      path,
      key: endpoint.key,
      verifiedBy: endpoint.verifiedBy,
      ...counts,
      ...(last && { lastRefusal: last.why, lastRefusalAt: isoTime(last.at) }),
    }),
  };
}

export const closed = (): Problem =>
  new Problem("SHUTTING_DOWN", "Nothing is accepted now. Send it again in a moment.", {
    retryAfter: 5,
    // A kept connection would lead back here; a new one goes to a relay that accepts events.
    headers: { Connection: "close" },
  });

/** Nothing, for what is left out. */
export const nothing: Filled = () => undefined;
