/** The error table: every error that the API can answer with (RFC 9457), and no other. */

export const PROBLEMS = {
  INVALID_JSON: [400, "The body is not valid JSON"],
  VALIDATION_FAILED: [400, "Some fields are wrong"],
  UNAUTHENTICATED: [401, "Authentication is needed"],
  STEP_UP_REQUIRED: [401, "A fresh second factor is needed"],
  FORBIDDEN: [403, "This caller may not do that"],
  NOT_FOUND: [404, "Not found"],
  METHOD_NOT_ALLOWED: [405, "Method not allowed"],
  NOT_ACCEPTABLE: [406, "Not acceptable"],
  IDEMPOTENCY_MISMATCH: [409, "The event id or Idempotency-Key was used before for something else"],
  SUBSCRIPTION_LIMIT_REACHED: [409, "The API key has its maximum of subscriptions"],
  NOT_REPLAYABLE: [409, "Nothing here can be replayed"],
  NOT_PENDING: [409, "The delivery is not pending, or not its turn"],
  DELIVERY_UNDER_WAY: [409, "An attempt of the delivery is under way"],
  CONFLICT: [409, "Another change came first"],
  PAYLOAD_TOO_LARGE: [413, "The body is too large"],
  UNSUPPORTED_MEDIA_TYPE: [415, "This content type or encoding is not accepted"],
  URL_NOT_ALLOWED: [422, "The relay may not call this URL"],
  ABUSE_SUSPEND: [429, "Suspended after too many refused requests"],
  RATE_LIMIT_EXCEEDED: [429, "Too many requests in this minute"],
  BURST_EXCEEDED: [429, "Too many requests at once"],
  PROVIDER_BACKPRESSURE: [429, "Busy: try again later"],
  INTERNAL_ERROR: [500, "The relay failed to handle the request"],
  UPSTREAM_UNAVAILABLE: [502, "The upstream did not answer"],
  STORAGE_UNAVAILABLE: [503, "The storage does not answer"],
  STORAGE_FULL: [503, "The storage is full"],
  SHUTTING_DOWN: [503, "The relay is shutting down"],
  UPSTREAM_NOT_CONFIGURED: [503, "No upstream is configured"],
} as const satisfies Record<string, readonly [status: number, title: string]>;

export type ProblemCode = keyof typeof PROBLEMS;

export interface FieldError {
  /** The field: `url`, `events[2]`, `[17].type`; empty for the body itself. */
  readonly path: string;
  readonly message: string;
  readonly reason?: string;
}

export interface ProblemExtras {
  readonly errors?: readonly FieldError[];
  /** Whole seconds, for 429 and 503. */
  readonly retryAfter?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** True when the log shows it as a refusal, though its status names a fault: anybody may cause it at any rate. */
  readonly refusal?: boolean;
}

/** An error answer. Thrown anywhere below the API, which answers it as problem details. `detail` says what to do. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly status: number;
  readonly detail: string;
  readonly extras: ProblemExtras;
  constructor(code: ProblemCode, detail: string, extras: ProblemExtras = {}) {
    super(`${code}: ${detail}`);
    this.name = "Problem";
    this.code = code;
    this.status = PROBLEMS[code][0];
    this.detail = detail;
    this.extras = extras;
  }
}

/** Answers a request whose fields are wrong. */
export const invalidFields = (errors: readonly FieldError[]): Problem =>
  new Problem("VALIDATION_FAILED", "Correct the fields that are listed.", { errors });

/** Most errors in one answer, and the longest path of one, in characters: of a longer one the end is shown. */
const ERRORS_LISTED = 100;
const LONGEST_PATH = 512;

/** Returns what of the errors an answer lists: names are as long as the client made them, and a batch has thousands. */
export function listedErrors(errors: readonly FieldError[]): readonly FieldError[] {
  const listed = errors
    .slice(0, ERRORS_LISTED)
    .map((one) => (one.path.length > LONGEST_PATH ? { ...one, path: `…${one.path.slice(-LONGEST_PATH)}` } : one));
  const more = errors.length - listed.length;
  return more === 0 ? listed : [...listed, { path: "", message: `and ${more} more problems` }];
}

/** `urn:relaybox:problem:<code in kebab-case>` */
export const problemType = (code: ProblemCode): string =>
  `urn:relaybox:problem:${code.toLowerCase().replaceAll("_", "-")}`;

/**
 * Returns whether what `accept` threw may work later, with the same input: 429, every status from 500 on, and whatever is no
 * `Problem`. A source keeps the input then and offers it again, after `extras.retryAfter` seconds where they are given. All
 * else never changes (400, 401, 404, 409, 413 and so on): the input is to be mended, and what is behind it goes on.
 */
export const isLater = (error: unknown): boolean =>
  !(error instanceof Problem) || error.status === 429 || error.status >= 500;

/** Says on a key of the caller's own what is not there. */
export const noSuch = (what: "event" | "subscription" | "delivery"): Problem =>
  new Problem("NOT_FOUND", `There is no such ${what} on this key.`);

/** One finding, as zod reports it. */
export interface SchemaIssue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly code?: string | undefined;
  /** With the code `unrecognized_keys`: the names that the schema does not have. */
  readonly keys?: readonly string[];
}

/** Returns a line for each problem, and one for each unknown name. */
export const fieldErrors = (issues: readonly SchemaIssue[]): readonly FieldError[] =>
  issues.flatMap(({ path, message, code, keys }) => {
    const at = fieldPath(path);
    if (code !== "unrecognized_keys") return [{ path: at, message }];
    return (keys ?? []).map((name) => ({ path: at === "" ? name : `${at}.${name}`, message: "is not known" }));
  });

/** `["events", 2, "name"]` → `events[2].name` */
function fieldPath(path: readonly PropertyKey[]): string {
  let out = "";
  for (const part of path)
    out += typeof part === "number" ? `[${part}]` : out === "" ? String(part) : `.${String(part)}`;
  return out;
}
