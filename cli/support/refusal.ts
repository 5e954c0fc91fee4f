/** What the relay refused, as one readable error, and the patience with 429: come back later. */
import type { FieldError } from "../../core/model/problem.ts";
import type { CliEnvironment } from "./environment.ts";
import { EX_REFUSED, EX_TEMPFAIL, EX_UNAVAILABLE, EX_USAGE, ExitError } from "./exit.ts";
import { printable } from "./output.ts";
import type { Clock } from "../../core/ports/clock.ts";

/** Times that one request is tried again after a 429. */
const MOST_WAITS = 10;
/** A longer wait is for the caller to decide, seconds: the limits ask for a minute at most, a suspension for more. */
const LONGEST_WAIT_S = 60;

/** Repeats what was refused with 429 after the time that the answer names. Nothing was done by such a request. */
export function patiently({ clock, say }: CliEnvironment): <T>(ask: () => Promise<T>) => Promise<T> {
  return async (ask) => {
    for (let waits = 0; ; waits++) {
      try {
        return await ask();
      } catch (error) {
        const seconds = error instanceof RefusedError && error.status === 429 ? error.retryAfter : undefined;
        if (seconds === undefined || seconds > LONGEST_WAIT_S || waits === MOST_WAITS) throw error;
        say(
          `relay: ${printable((error as RefusedError).title)}; trying again in ${seconds} s (--no-wait gives up at once)`,
        );
        await waitFor(clock, seconds * 1_000);
      }
    }
  };
}

/** The relay refused a request. */
class RefusedError extends ExitError {
  readonly status: number;
  readonly title: string;
  /** Seconds; undefined where the answer names none. */
  readonly retryAfter: number | undefined;
  constructor(status: number, title: string, message: string, retryAfter: string | null) {
    super(exitCode(status), message);
    this.status = status;
    this.title = title;
    this.retryAfter = retryAfter !== null && /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) : undefined;
  }
}

/** Whether the relay refused this request alone: its fields, its URL or the room for it; not the caller, and not for now. */
export const isRefusal = (error: ExitError): boolean =>
  error instanceof RefusedError && [400, 409, 413, 422].includes(error.status);

/** A problem answer as one readable error: title, detail, every field. */
export function problem(status: number, body: object, retryAfter: string | null): RefusedError {
  const {
    title = "the relay refused",
    detail,
    code,
    errors,
  } = body as {
    title?: string;
    detail?: string;
    code?: string;
    errors?: readonly FieldError[];
  };
  const lines = [`${title} (${status}${code === undefined ? "" : ` ${code}`})`];
  if (detail !== undefined) lines.push(`  ${detail}`);
  for (const { path, message } of Array.isArray(errors) ? (errors as readonly FieldError[]) : []) {
    lines.push(`  ${path === "" ? "" : `${path}: `}${message}`);
  }
  if (retryAfter !== null) lines.push(`  Try again in ${retryAfter} s.`);
  return new RefusedError(status, title, lines.join("\n"), retryAfter);
}

function exitCode(status: number): number {
  if (status === 429 || status === 503) return EX_TEMPFAIL;
  if (status >= 500) return EX_UNAVAILABLE;
  return [400, 413, 415, 422].includes(status) ? EX_USAGE : EX_REFUSED;
}

/** Resolves after `ms`; the process does not end before. */
async function waitFor(clock: Clock, ms: number): Promise<void> {
  const { port1: alive } = new MessageChannel();
  alive.ref();
  try {
    await clock.sleep(clock.now() + ms);
  } finally {
    alive.close();
  }
}
