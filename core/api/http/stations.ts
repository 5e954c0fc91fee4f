/** The stations in front of an endpoint, as the middleware of its route, and the checks of a management request, in their order. */
import type { Middleware } from "h3";
import type { z } from "zod";
import { addressGroup } from "../../lib/address.ts";
import type { Limiter, LimitRefusalCode } from "../../limits/limiter.ts";
import type { Caller } from "../../limits/takes.ts";
import type { AuditEntry } from "../../model/audit.ts";
import { isKeyId } from "../../model/names.ts";
import { type FieldError, fieldErrors, invalidFields, Problem } from "../../model/problem.ts";
import { type Access, isSteppedUp, stepUpChallenge, type StepUpRule } from "../../model/token.ts";
import type { Auth, Principal } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, Metrics } from "../../ports/plugin.ts";
import type { Route, RouteReply } from "../../ports/route.ts";
import { hasBody } from "./body.ts";
import { type Call, type Exchange, exchangeOf } from "./call.ts";
import { fieldMessage } from "./field-messages.ts";
import { checkAccept, readJson } from "./json-body.ts";
import type { AnyOperation, OperationRequest } from "./operation.ts";
import { pathReader, segmentsOf } from "./paths.ts";
import { envelope, overLimit } from "./reply.ts";

/** The parts of the relay that carry out every request. */
export interface ExchangeDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly auth: Auth;
  readonly limits: Pick<Limiter, "check" | "unauthenticated">;
  readonly stepUp: StepUpRule;
  /** Puts a refusal on the audit trail. Never rejects. @default it is not recorded */
  readonly trail?: (entry: AuditEntry, alike: string) => Promise<void>;
  /** Called for each 429, with the key of the path where the caller owns it. */
  readonly refused?: (code: LimitRefusalCode, keyId: string | undefined) => void;
}

/** Either an operation of the management API, or a route of a plug-in. */
export type Endpoint =
  | { readonly method: string; readonly path: string; readonly operation: AnyOperation; readonly route?: undefined }
  | { readonly method: string; readonly path: string; readonly operation?: undefined; readonly route: Route };

/**
 * Checks who asks, how often, and what it may do. It throws what ends the request.
 * @param noRoute makes the problem of a path that is spelled otherwise
 */
export function stationsBefore(
  { operation, route, method, path }: Endpoint,
  deps: ExchangeDeps,
  noRoute: (path: string) => Problem,
): Middleware {
  const { auth, limits } = deps;
  const read = path.includes("{") ? pathReader(path) : undefined;
  const row = operation ? (operation.limit ?? `${method} ${path}`) : route.limit;
  // One middleware: h3 makes two promises and two closures of each.
  return async (event) => {
    const exchange = exchangeOf(event);
    const { call } = exchange;
    const params = read === undefined ? (call.path === path ? {} : undefined) : read(segmentsOf(call.path));
    if (params === undefined) throw noRoute(call.path);
    call.params = params;
    exchange.where = path;
    if (operation) exchange.principal = await authenticated(auth, call);
    else if (route.identify) Object.assign(exchange, await route.identify(call));
    const { principal, counted, access } = exchange;
    if (row !== undefined && row !== false) {
      const verdict = await limits.check(
        row,
        principal ? countedOf(operation, principal) : (counted ?? addressGroup(call.address)),
      );
      exchange.verdict = verdict;
      exchange.limitHeaders = verdict?.headers;
      if (verdict?.code) throw overLimit(verdict);
    }
    const problem =
      forbidden(operation ?? route, principal ? principal.access : access) ??
      (principal && notForPortal(operation, principal));
    if (problem === undefined) return;
    await noteForbidden(deps, `${call.method} ${path}`, exchange);
    throw problem;
  };
}

/** A customer may have several pages open: what all links of a key may read together is this many times the row. */
const PAGES = 10;

/** Names whom the limits count. Whoever manages a key makes links to its portal at will, so they count together too. */
function countedOf(
  operation: AnyOperation | undefined,
  { sub, keys, portal }: Principal,
): string | (string | Caller)[] {
  if (portal === undefined || operation === undefined) return sub;
  const factor = neededAccess(operation) === "read" ? PAGES : 1;
  return [sub, { principal: `portal links of ${String(keys)}`, factor, shared: true }];
}

async function authenticated(auth: Auth, call: Call): Promise<Principal> {
  const found = await auth.authenticate(call);
  if ("refused" in found) throw new Problem("UNAUTHENTICATED", "Send a valid access token as Authorization: Bearer.");
  return found;
}

/** An operation or a route, which may name the right that its caller needs. */
export interface Guarded {
  readonly method: string;
  readonly access?: Access | undefined;
}

/** Returns what the caller of a route must be allowed to do: the method says it, unless the route says otherwise. */
export const neededAccess = ({ method, access }: Guarded): Access => access ?? (method === "GET" ? "read" : "manage");

/** Refuses what changes something to callers who may only read. @param access what the caller may do; absent: everything */
const forbidden = (route: Guarded, access: Access | undefined): Problem | undefined =>
  access === undefined || access === "manage" || neededAccess(route) === "read"
    ? undefined
    : new Problem("FORBIDDEN", "You may look at this, and not change it. Ask an operator for more access.");

/** Refuses the holder of a portal link, unless the operation is open to such. */
const notForPortal = (operation: AnyOperation | undefined, { portal }: Principal): Problem | undefined =>
  portal === undefined || operation?.portal === true
    ? undefined
    : new Problem("FORBIDDEN", "A portal link does not open this. Ask the operator of the relay.");

/** Puts on the audit trail, like other refusals, that a reader or the holder of a portal link may not do this. */
async function noteForbidden({ trail }: ExchangeDeps, route: string, exchange: Exchange): Promise<void> {
  const { call, principal } = exchange;
  const who = principal ?? (exchange.caller as Principal | undefined);
  if (who?.sub === undefined) return;
  const { keyId = "", subscriptionId, eventId } = call.params;
  const actor = { sub: who.sub, address: call.address, requestId: call.requestId };
  const target = (subscriptionId ?? eventId ?? keyId).slice(0, 128);
  const facts = { action: "access", target, detail: route } as const;
  await trail?.({ ...facts, actor, keys: owns(who, keyId) ? [keyId] : "*" }, `${who.sub} ${route} ${keyId}`);
}

/** Runs an operation. `undefined` when it has written the whole answer itself. */
export async function runOperation(
  operation: AnyOperation,
  { call, principal, limitHeaders }: Exchange,
  deps: ExchangeDeps,
): Promise<RouteReply | undefined> {
  const ask = await readAsk(operation, call, principal as Principal, deps);
  const answered = (await operation.handle(ask)) ?? {};
  if (!("stream" in answered)) return envelope({ status: operation.reply.status, ...answered }, deps.clock.now());
  await answered.stream(call, { ...limitHeaders, "X-Request-Id": call.requestId });
  return undefined;
}

export const notFound = (): Problem => new Problem("NOT_FOUND", "There is no such resource.");

export const owns = (principal: Principal, keyId: string): boolean =>
  isKeyId(keyId) && (principal.keys === "*" || principal.keys.includes(keyId));

/** Checks content type, encoding, size, JSON and fields, then the key, then the second factor. Throws the Problem that ends it. */
async function readAsk(
  spec: AnyOperation,
  call: Call,
  principal: Principal,
  { stepUp, clock, trail }: ExchangeDeps,
): Promise<OperationRequest<unknown, unknown>> {
  checkAccept(call, spec.reply.type ?? "application/json");
  const errors: FieldError[] = [];
  const sent = spec.body === undefined || (spec.bodyOptional && !hasBody(call.req)) ? undefined : await readJson(call);
  const body = spec.body === undefined ? undefined : parsed(spec.body, sent === undefined ? {} : sent.value, errors);
  const query = readQuery(spec, call, errors);
  if (errors.length > 0) throw invalidFields(errors);
  const { params } = call;
  const { keyId = "", eventId = "", subscriptionId = "" } = params;
  if ("keyId" in params && !owns(principal, keyId)) throw notFound();
  if (spec.everyKey && principal.keys !== "*") throw notFound();
  const actor = { sub: principal.sub, address: call.address, requestId: call.requestId };
  if (spec.stepUp !== undefined && !isSteppedUp(principal, stepUp, clock.now())) {
    const target = params["subscriptionId"] ?? keyId;
    const tried = { action: spec.stepUp, target, detail: "no fresh second factor" };
    await trail?.({ ...tried, actor, keys: keyId === "" ? "*" : [keyId] }, `${principal.sub} ${keyId}`);
    // The challenge of RFC 9470 says which factor is needed.
    const detail = "Prove your second factor again, then repeat the request with the new token.";
    throw new Problem("STEP_UP_REQUIRED", detail, { headers: { "WWW-Authenticate": stepUpChallenge(stepUp) } });
  }
  return { call, principal, actor, keyId, eventId, subscriptionId, params, body, text: sent?.text, query };
}

function readQuery(spec: AnyOperation, call: Call, errors: FieldError[]): unknown {
  if (spec.query === undefined) return undefined;
  const given: Record<string, string> = {};
  for (const [name, value] of call.query) {
    if (Object.hasOwn(given, name)) errors.push({ path: name, message: "is given more than once" });
    Object.defineProperty(given, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return parsed(spec.query, given, errors);
}

function parsed(schema: z.ZodType, value: unknown, errors: FieldError[]): unknown {
  const result = schema.safeParse(value, { error: fieldMessage });
  if (result.success) return result.data;
  errors.push(...fieldErrors(result.error.issues));
  return undefined;
}
