/** The checks of a management request, in their order. Each throws the Problem that ends it. */
import type { z } from "zod";
import { isKeyId } from "../model/names.ts";
import { Problem } from "../model/problem.ts";
import type { FieldError } from "../model/problem.ts";
import type { Auth, Principal } from "../ports/auth.ts";
import type { Clock } from "../ports/clock.ts";
import type { Call } from "./call.ts";
import { checkAccept, hasBody, readJson } from "./json.ts";
import type { AnyOperation, Ask } from "./endpoint.ts";

export interface StepUpRule {
  readonly acr: readonly string[];
  readonly amr: readonly string[];
  readonly maxAgeMs: number;
}

export const notFound = (): Problem => new Problem("NOT_FOUND", "There is no such resource.");

export async function authenticated(auth: Auth, call: Call): Promise<Principal> {
  const found = await auth.authenticate(call);
  if ("refused" in found) throw new Problem("UNAUTHENTICATED", "Send a valid access token as Authorization: Bearer.");
  return found;
}

/** Content type, encoding, size, JSON, fields; then the key; then the second factor. */
export async function readAsk(
  spec: AnyOperation,
  call: Call,
  principal: Principal,
  stepUp: StepUpRule,
  clock: Pick<Clock, "now">,
): Promise<Ask<unknown, unknown>> {
  checkAccept(call, spec.reply.type ?? "application/json");
  const errors: FieldError[] = [];
  const given = spec.body === undefined ? undefined : spec.bodyOptional && !hasBody(call) ? {} : await readJson(call);
  const body = spec.body === undefined ? undefined : parsed(spec.body, given, errors);
  const query = readQuery(spec, call, errors);
  if (errors.length > 0) throw new Problem("VALIDATION_FAILED", "Correct the fields that are listed.", { errors });
  const { keyId = "" } = call.params;
  if ("keyId" in call.params && !owns(principal, keyId)) throw notFound();
  if (spec.everyKey && principal.keys !== "*") throw notFound();
  if (spec.stepUp) checkStepUp(principal, stepUp, clock.now());
  const actor = { sub: principal.sub, address: call.address, requestId: call.requestId };
  return { call, principal, actor, keyId, params: call.params, body, query };
}

export const owns = (principal: Principal, keyId: string): boolean =>
  isKeyId(keyId) && (principal.keys === "*" || principal.keys.includes(keyId));

function readQuery(spec: AnyOperation, call: Call, errors: FieldError[]): unknown {
  if (spec.query === undefined) return undefined;
  const given: Record<string, string> = {};
  for (const [name, value] of call.query) {
    if (Object.hasOwn(given, name)) errors.push({ path: name, message: "stands more than once" });
    Object.defineProperty(given, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return parsed(spec.query, given, errors);
}

function parsed(schema: z.ZodType, value: unknown, errors: FieldError[]): unknown {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  for (const issue of result.error.issues) {
    const path = pathOf(issue.path);
    if (issue.code === "unrecognized_keys") {
      for (const name of issue.keys)
        errors.push({ path: path === "" ? name : `${path}.${name}`, message: "is not known" });
    } else errors.push({ path, message: issue.message });
  }
  return undefined;
}

function pathOf(path: readonly PropertyKey[]): string {
  let out = "";
  for (const part of path)
    out += typeof part === "number" ? `[${part}]` : out === "" ? String(part) : `.${String(part)}`;
  return out;
}

/** How far `auth_time` may lie ahead of our clock, ms. */
const AHEAD_MS = 30_000;

/** RFC 9470: the answer says what would be enough. */
function checkStepUp(principal: Principal, rule: StepUpRule, now: number): void {
  const { amr, acr, authTime } = principal;
  const factor = amr.some((one) => rule.amr.includes(one)) || (acr !== undefined && rule.acr.includes(acr));
  const ageMs = authTime === undefined ? Number.NaN : now - authTime * 1_000;
  if (factor && ageMs >= -AHEAD_MS && ageMs <= rule.maxAgeMs) return;
  const acrValues = rule.acr.length > 0 ? rule.acr.join(" ") : rule.amr.join(" ");
  const maxAge = Math.floor(rule.maxAgeMs / 1_000);
  throw new Problem("STEP_UP_REQUIRED", "Prove your second factor again, then repeat the request with the new token.", {
    headers: {
      "www-authenticate": `Bearer error="insufficient_user_authentication", error_description="A fresh second factor is needed", acr_values="${acrValues}", max_age="${maxAge}"`,
    },
  });
}
