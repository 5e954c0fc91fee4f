/** The checks of a management request, in their order. Each throws the Problem that ends it. */
import type { z } from "zod";
import type { AuditEntry } from "../../model/audit.ts";
import { type FieldError, fieldErrors, invalidFields, Problem } from "../../model/problem.ts";
import { isKeyId } from "../../model/names.ts";
import type { Auth, Principal } from "../../ports/auth.ts";
import { isSteppedUp, stepUpChallenge, type StepUpRule } from "../../model/token.ts";
import type { Clock } from "../../ports/clock.ts";
import { hasBody } from "./body.ts";
import type { Call } from "./call.ts";
import { fieldMessage } from "./field-messages.ts";
import { checkAccept, readJson } from "./json-body.ts";
import type { AnyOperation, OperationRequest } from "./operation.ts";

export const notFound = (): Problem => new Problem("NOT_FOUND", "There is no such resource.");

export async function authenticated(auth: Auth, call: Call): Promise<Principal> {
  const found = await auth.authenticate(call);
  if ("refused" in found) throw new Problem("UNAUTHENTICATED", "Send a valid access token as Authorization: Bearer.");
  return found;
}

/** What the checks need beside the request. */
export interface CheckDeps {
  readonly stepUp: StepUpRule;
  readonly clock: Pick<Clock, "now">;
  /** Puts a refusal on the audit trail. Never rejects. */
  readonly refused: (entry: AuditEntry, alike: string) => Promise<void>;
}

/** Checks content type, encoding, size, JSON and fields, then the key, then the second factor. */
export async function readAsk(
  spec: AnyOperation,
  call: Call,
  principal: Principal,
  deps: CheckDeps,
): Promise<OperationRequest<unknown, unknown>> {
  checkAccept(call, spec.reply.type ?? "application/json");
  const errors: FieldError[] = [];
  const sent = spec.body === undefined || (spec.bodyOptional && !hasBody(call.req)) ? undefined : await readJson(call);
  const body = spec.body === undefined ? undefined : parsed(spec.body, sent === undefined ? {} : sent.value, errors);
  const query = readQuery(spec, call, errors);
  if (errors.length > 0) throw invalidFields(errors);
  const { keyId = "" } = call.params;
  if ("keyId" in call.params && !owns(principal, keyId)) throw notFound();
  if (spec.everyKey && principal.keys !== "*") throw notFound();
  const actor = { sub: principal.sub, address: call.address, requestId: call.requestId };
  if (spec.stepUp !== undefined && !isSteppedUp(principal, deps.stepUp, deps.clock.now())) {
    const target = call.params["subscriptionId"] ?? keyId;
    const tried = { action: spec.stepUp, target, detail: "no fresh second factor" };
    await deps.refused({ ...tried, actor, keys: keyId === "" ? "*" : [keyId] }, `${principal.sub} ${keyId}`);
    throw stepUpRequired(deps.stepUp);
  }
  return { call, principal, actor, keyId, params: call.params, body, text: sent?.text, query };
}

export const owns = (principal: Principal, keyId: string): boolean =>
  isKeyId(keyId) && (principal.keys === "*" || principal.keys.includes(keyId));

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

/** The challenge of RFC 9470 says which factor is needed. */
const stepUpRequired = (rule: StepUpRule): Problem =>
  new Problem("STEP_UP_REQUIRED", "Prove your second factor again, then repeat the request with the new token.", {
    headers: { "WWW-Authenticate": stepUpChallenge(rule) },
  });
