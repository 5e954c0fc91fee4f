/** Computes what an update makes of a subscription. Pure, except for the sealing of header values. */
import type { Filter, FilterPath } from "../model/filter.ts";
import type { RepeatedHeaders } from "../model/header-names.ts";
import { isEventPattern, matchesPattern, OPERATIONAL } from "../model/names.ts";
import { type FieldError, invalidFields } from "../model/problem.ts";
import {
  DEFAULT_RETRY,
  headerAad,
  type OnFailed,
  type RetryOptions,
  type RetrySettings,
  scheduleOf,
  type SealedSecret,
  secretAad,
  type Subscription,
  type SubscriptionStatus,
} from "../model/subscription.ts";
import type { Keys } from "../ports/plugin.ts";
import { openFor, originOf, sealedFor, storedUrl } from "../model/credentials.ts";
import { sealCredentials, type CredentialFields, type Place } from "./credentials.ts";

/** The fields that may be set besides URL and events; `null` clears. */
interface Options extends CredentialFields {
  readonly description?: string | null;
  readonly rateLimit?: { readonly perSecond: number } | null;
  readonly timeoutMs?: number | null;
  /** Fields of a backoff that are left out are filled from the relay's policy. */
  readonly retry?: RetrySettings | null;
  /** Its shape and bounds have been checked. */
  readonly filter?: Filter | null;
  readonly transform?: string | null;
  /** `false` clears it, like `null`. */
  readonly ordered?: boolean | null;
  readonly orderBy?: FilterPath | null;
  readonly onFailed?: OnFailed | null;
  /** Values in clear text. In an update `null` keeps a value, and a name that is left out is removed. */
  readonly headers?: Readonly<Record<string, string | null>> | null;
}

export interface SubscriptionFields extends Options {
  readonly url: string;
  readonly events: readonly string[];
  /** In clear text. The relay makes one where there is none. */
  readonly secret?: string | null;
  /** @default active */
  readonly status?: SubscriptionStatus;
}

export interface SubscriptionPatch extends Options {
  readonly url?: string;
  readonly events?: readonly string[];
  readonly status?: SubscriptionStatus;
}

const PLAIN = [
  "description",
  "rateLimit",
  "timeoutMs",
  "retry",
  "filter",
  "transform",
  "ordered",
  "orderBy",
  "onFailed",
] as const;

type Plain = Pick<Subscription, (typeof PLAIN)[number]>;

/** Returns the optional fields that are set. @param retry the relay's policy, for what a retry policy leaves out */
export function fieldsOf(fields: Options, retry: RetryOptions): Plain {
  const out: Record<string, unknown> = {};
  for (const name of PLAIN) if (isSet(fields[name])) out[name] = fields[name];
  return { ...(out as Plain), ...(fields.retry && { retry: wholeRetry(fields.retry, retry) }) };
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null && value !== false;

/** A first delay beyond the relay's longest one raises that, unless a longest one is given, because it was asked for. */
function wholeRetry(given: RetrySettings, relays: RetryOptions): RetryOptions {
  if (given.delaysMs !== undefined) return scheduleOf(given.delaysMs);
  const retry = relays.delaysMs === undefined ? relays : DEFAULT_RETRY;
  const { attempts = retry.attempts, firstDelayMs = retry.firstDelayMs, factor = retry.factor } = given;
  const maxDelayMs = given.maxDelayMs ?? Math.max(retry.maxDelayMs, firstDelayMs);
  return { attempts, firstDelayMs, factor, maxDelayMs };
}

/** @throws Problem VALIDATION_FAILED for names that are malformed, or that no name in the catalogue can match */
export function checkEvents(events: readonly string[], catalogue: readonly string[] | undefined): void {
  const errors: FieldError[] = [];
  for (const [i, pattern] of events.entries()) {
    const path = `events[${i}]`;
    if (!isEventPattern(pattern)) errors.push({ path, message: "is not an event name or pattern" });
    else if (
      catalogue &&
      !pattern.startsWith(OPERATIONAL) &&
      !catalogue.some((name) => matchesPattern(pattern, name))
    ) {
      errors.push({ path, message: "matches no name in the catalogue of events" });
    }
  }
  if (errors.length > 0) throw invalidFields(errors);
}

/** @throws Problem VALIDATION_FAILED for a transform that the config does not have */
export function checkTransform(name: string | null | undefined, known: (() => readonly string[]) | undefined): void {
  if (name === undefined || name === null) return;
  const names = known?.() ?? [];
  if (names.includes(name)) return;
  const there = names.length === 0 ? "it has none" : `there are: ${names.join(", ")}`;
  const errors = [{ path: "transform", message: `is not a transform of the relay's config (${there})` }];
  throw invalidFields(errors);
}

/** @throws Problem VALIDATION_FAILED for a header whose name the relay gives to one of its own (`signature.headers`) */
export function checkHeaders(given: object | null | undefined, repeated: RepeatedHeaders | undefined): void {
  const taken = new Set(Object.keys(repeated ?? {}).map((name) => name.toLowerCase()));
  const errors = Object.keys(given ?? {})
    .filter((name) => taken.has(name.toLowerCase()))
    .map((name) => ({ path: `headers.${name}`, message: "is the relay's own (signature.headers of its config)" }));
  if (errors.length > 0) throw invalidFields(errors);
}

/**
 * Seals header values for storage.
 * @param kept the stored ones that `null` may keep
 */
export function sealHeaders(
  keys: Pick<Keys, "seal">,
  { keyId, id, url }: Place,
  given: Readonly<Record<string, string | null>> | undefined,
  kept: Subscription["headers"],
): Pick<Subscription, "headers"> {
  if (given === undefined) return {};
  const stored = new Map(Object.entries(kept ?? {}).map(([name, sealed]) => [name.toLowerCase(), sealed]));
  const headers: Record<string, string> = {};
  const errors: FieldError[] = [];
  for (const [name, value] of Object.entries(given)) {
    const sealed =
      value === null ? stored.get(name.toLowerCase()) : keys.seal(value, sealedFor(headerAad(keyId, id, name), url));
    if (sealed === undefined) errors.push({ path: `headers.${name}`, message: "has no stored value to keep" });
    else headers[name] = sealed;
  }
  if (errors.length > 0) throw invalidFields(errors);
  return Object.keys(headers).length > 0 ? { headers } : {};
}

/** Returns true when the URL keeps its origin. Credentials and headers of one origin are never sent to another. */
const staysAt = (now: Subscription, patch: SubscriptionPatch): boolean =>
  patch.url === undefined || originOf(now.url) === originOf(patch.url);

/** A new origin drops all stored header values, but for those given in the same update. */
function patchedHeaders(
  keys: Pick<Keys, "seal">,
  now: Subscription,
  patch: SubscriptionPatch,
): Pick<Subscription, "headers"> {
  const stays = staysAt(now, patch);
  if (patch.headers === null) return {};
  if (patch.headers === undefined) return stays && now.headers ? { headers: now.headers } : {};
  const given = Object.entries(patch.headers).filter(([, value]) => stays || value !== null);
  return sealHeaders(keys, { ...now, url: patch.url ?? now.url }, Object.fromEntries(given), now.headers);
}

/** Seals a signing secret for another origin: unlike what it is sent, it belongs to the subscription. */
function movedSecret(
  keys: Pick<Keys, "seal" | "open">,
  { keyId, id, url: from }: Place,
  secret: SealedSecret,
  to: string,
): SealedSecret {
  const aad = secretAad(keyId, id, secret.version);
  return { ...secret, sealed: keys.seal(openFor(keys, secret.sealed, aad, from), sealedFor(aad, to)) };
}

/** @param patch its `url` has passed the guard */
export function patched(
  { keys, retry }: { readonly keys: Pick<Keys, "seal" | "open">; readonly retry: RetryOptions },
  now: Subscription,
  patch: SubscriptionPatch,
  at: number,
): Subscription {
  const { headers: _headers, clientCertificate, oauth2, disabledReason, ...rest } = now;
  const stays = staysAt(now, patch);
  const stored = stays ? { clientCertificate, oauth2 } : {};
  const url = patch.url ?? now.url;
  const status = patch.status ?? now.status;
  const kept: Record<string, unknown> = { ...rest };
  for (const name of PLAIN) if (patch[name] === null || patch[name] === false) delete kept[name];
  if (patch.ordered === null || patch.ordered === false) for (const name of ["orderBy", "onFailed"]) delete kept[name];
  return {
    ...(kept as unknown as typeof rest),
    ...fieldsOf(patch, retry),
    ...(patch.url !== undefined && storedUrl(keys, now, patch.url)),
    ...(!stays && { secrets: now.secrets.map((one) => movedSecret(keys, now, one, url)) }),
    ...(patch.events !== undefined && { events: [...new Set(patch.events)] }),
    ...patchedHeaders(keys, now, patch),
    ...sealCredentials(keys, { ...now, url }, patch, stored),
    ...(status === "disabled" && disabledReason !== undefined && { disabledReason }),
    status,
    updatedAt: at,
    generation: now.generation + (now.status === "active" && status === "disabled" ? 1 : 0),
  };
}
