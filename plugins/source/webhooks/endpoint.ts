/** Takes the webhooks of one path: verifies, stores, and only then answers 200. */
import { addressGroup } from "../../../core/lib/address.ts";
import { within } from "../../../core/lib/within.ts";
import { MAX_EVENT_BYTES } from "../../../core/model/event.ts";
import { isLater, Problem } from "../../../core/model/problem.ts";
import { isoTime } from "../../../core/lib/time.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Route, RouteReply, RouteRequest } from "../../../core/ports/route.ts";
import type { Accept, SourceInfo } from "../../../core/ports/source.ts";
import { Arrived, type Filled, filler } from "./arrived.ts";
import { eventOf, type Reading } from "./event.ts";
import type { Provider, Verification, WebhookEndpoint } from "./scheme.ts";
import type { CheckRequest } from "./verify.ts";

/** What the endpoints of a source share. */
export interface Desk extends Pick<PluginContext, "clock" | "log"> {
  accept: Accept | undefined;
  info: SourceInfo;
  readonly count: (one: { readonly path: string; readonly result: string }) => void;
  readonly underWay: Set<Promise<unknown>>;
  /** Says whether one more line may be written about this address group, or path. */
  readonly bound: (group: string) => boolean;
}

/** How many requests became what, as the metric counts them too. */
const NONE = { accepted: 0, repeated: 0, answered: 0, refused: 0, invalid: 0, later: 0 };
type Result = keyof typeof NONE;

export const SOURCE = "webhooks";
const TEXT = { "Content-Type": "text/plain; charset=utf-8" };
const RETRY = { retryAfter: 5 };
/** Some clients of `basic()` wait for it; others pass it over. */
const CHALLENGE = { "WWW-Authenticate": 'Basic realm="relay"' };
const TIMEOUT_MS = 10_000;
/** Where the attributes of a CloudEvent stand: it is known by its source and its id. */
const CLOUD_EVENT = {
  id: ["{header.ce-source}#{header.ce-id}", "{body.source}#{body.id}"],
  type: ["{header.ce-type}", "{body.type}", "cloudevent"],
};

export class Endpoint {
  readonly routes: readonly Route[];
  readonly #desk: Desk;
  readonly #check: CheckRequest;
  readonly #is: Pick<WebhookEndpoint, "path" | "cloudEvents"> & { readonly key: string; readonly verifiedBy: string };
  readonly #reading: Reading;
  readonly #challenge: { readonly of: Filled; readonly is: string; readonly answer: Filled } | undefined;
  readonly #timeoutMs: number;
  readonly #counts = { ...NONE };
  #last: { readonly lastRefusal: string; readonly lastRefusalAt: string } | undefined;

  /** What the endpoint leaves out is as its verification says of the provider. @param given without problems */
  constructor(given: WebhookEndpoint, check: CheckRequest, desk: Desk) {
    const { path, keyId: key, verify, headers = [], cloudEvents = false } = given;
    const schemes = [verify].flat() as readonly Verification[];
    const said: readonly Provider[] = [given, cloudEvents === false ? {} : CLOUD_EVENT, ...schemes];
    const of = <Name extends keyof Provider>(name: Name) => said.find((one) => one[name] !== undefined)?.[name];
    const [id, type] = [filler(of("id") ?? []), filler(of("type") ?? "webhook")];
    const challenge = of("challenge");
    this.#desk = desk;
    this.#check = check;
    this.#is = { path, key, verifiedBy: schemes.map(({ name, by }) => name ?? by).join(", "), cloudEvents };
    this.#reading = { keyId: filler(key), id, type, headers: headers.map((name) => name.toLowerCase()) };
    this.#challenge = challenge && { ...challenge, of: filler(challenge.of), answer: filler(challenge.answer) };
    this.#timeoutMs = of("timeoutMs") ?? TIMEOUT_MS;
    const handle: Route["handle"] = (request) =>
      this.#take(request).catch((error: unknown) => Promise.reject(this.#failed(error, request)));
    const options: Route = { method: "OPTIONS", path, handle: async (request) => this.#shakeHands(request) };
    this.routes = [{ method: "POST", path, handle }, ...(cloudEvents === false ? [] : [options])];
  }

  figures() {
    const { path, key, verifiedBy } = this.#is;
    return { source: SOURCE, path, key, verifiedBy, ...this.#counts, ...this.#last };
  }

  async #take(request: RouteRequest): Promise<RouteReply> {
    const challenge = this.#challenge;
    const began = this.#desk.clock.monotonic();
    const checkBody = this.#check(request);
    if (typeof checkBody === "string") throw this.#refused(request, checkBody);
    if (request.header("content-encoding") !== undefined)
      throw new Problem("UNSUPPORTED_MEDIA_TYPE", "Send the body without Content-Encoding.");
    const admittedAt = this.#desk.info.admit?.();
    const arrived = new Arrived(request, await request.body(MAX_EVENT_BYTES));
    const why = checkBody(arrived);
    if (why !== undefined) throw this.#refused(request, why);
    if (challenge !== undefined && challenge.of(arrived) === challenge.is) {
      this.#count("answered");
      return { status: 200, headers: TEXT, body: challenge.answer(arrived) ?? "" };
    }
    return await this.#store(arrived, began, admittedAt);
  }

  async #store(arrived: Arrived, began: number, admittedAt: number | undefined): Promise<RouteReply> {
    const { accept, info, underWay, clock } = this.#desk;
    const publication = eventOf(arrived, this.#reading);
    // A kept connection would lead back here; a new one goes to a relay that accepts events.
    if (accept === undefined)
      throw new Problem("SHUTTING_DOWN", "Nothing is accepted now.", { ...RETRY, headers: { Connection: "close" } });
    const { requestId } = arrived.request;
    const request = { publications: [publication], requestId, source: SOURCE };
    const work = accept(admittedAt === undefined ? request : { ...request, admittedAt });
    underWay.add(work);
    const over = (): void => void underWay.delete(work);
    work.then(over, over);
    const headers = { ...TEXT, "Relay-Durability": info.durability };
    try {
      if (!(await within(clock, this.#timeoutMs - (clock.monotonic() - began), work)))
        throw new Problem("STORAGE_UNAVAILABLE", "Not stored in time. Send it again.", RETRY);
      const [stored] = await work;
      this.#count(stored?.duplicate ? "repeated" : "accepted");
      return { status: 200, headers: { ...headers, "Relay-Event-Id": stored?.id ?? "" } };
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== "IDEMPOTENCY_MISMATCH") throw error;
      // The id is the provider's: what comes under it again is a repeat, also where it is written in another way.
      this.#count("repeated");
      this.#say("info", "a webhook comes again with other content", this.#is.path, { requestId });
      return { status: 200, headers };
    }
  }

  /** Every refusal is answered alike: the reason is for the log and the page. */
  #refused({ address, requestId }: RouteRequest, why: string): Problem {
    this.#count("refused", why);
    this.#say("warn", "a webhook is refused", addressGroup(address), { why, address, requestId });
    return new Problem("UNAUTHENTICATED", "The request is not verified.", { headers: CHALLENGE });
  }

  /** Counts what else a request fails by, and has the operator see what only a person can mend. */
  #failed(error: unknown, { address, requestId }: RouteRequest): unknown {
    if (isLater(error) || !(error instanceof Problem)) {
      this.#count("later");
      return error;
    }
    const { code, detail, extras } = error;
    if (code === "UNAUTHENTICATED") return error;
    const found = extras.errors?.map(({ path, message }) => `${path} ${message}`.trim()).join("; ") ?? "";
    const why = `${detail} ${found}`.trim();
    this.#count("invalid", why);
    this.#say("warn", "a webhook cannot be stored", addressGroup(address), { code, why, address, requestId });
    return error;
  }

  #count(result: Result, why?: string): void {
    const { clock, count } = this.#desk;
    this.#counts[result]++;
    count({ path: this.#is.path, result });
    if (why !== undefined) this.#last = { lastRefusal: why, lastRefusalAt: isoTime(clock.now()) };
  }

  #say(level: "info" | "warn", message: string, group: string, fields: Readonly<Record<string, string>>): void {
    if (this.#desk.bound(group)) this.#desk.log[level](message, { source: SOURCE, path: this.#is.path, ...fields });
  }

  /** The handshake of CloudEvents (https://github.com/cloudevents/spec, HTTP webhook §4): whether this origin may send. */
  #shakeHands(request: RouteRequest): RouteReply {
    const origin = request.header("webhook-request-origin");
    const { cloudEvents: origins } = this.#is;
    const headers = { ...TEXT, Allow: "POST, OPTIONS" };
    if (origin === undefined || (typeof origins === "object" && !origins.includes(origin)))
      return { status: 200, headers };
    this.#count("answered");
    return { status: 200, headers: { ...headers, "WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*" } };
  }
}
