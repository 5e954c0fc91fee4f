/** Schemas of the fields that several resources share. */
import { z } from "zod";

/** Adds what the documentation says of a field. */
export const note = <T extends z.ZodType>(schema: T, description: string, ...examples: readonly unknown[]): T =>
  schema.meta(examples.length === 0 ? { description } : { description, examples: [...examples] });

/** A moment in an answer. */
export const time = note(z.iso.datetime(), "ISO 8601, UTC, milliseconds.");
/** What every answer says beside its data. */
export const meta = z.strictObject({ timestamp: z.iso.datetime() }).meta({ id: "Meta" });
/** A moment in a query or body, read as epoch ms. */
export const moment = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));

/**
 * Returns a rule about fields that go together, for the documentation. It stands behind two negations: as it is, code
 * generators would make a union of types of it, or refuse it.
 */
export const documented = (rule: object): object => ({ not: { not: rule } });

interface Span {
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

/** Refuses a span of time without a moment in it: it is more often a mistake than a question. */
export const isSpan = ({ since, until }: Span): boolean => since === undefined || until === undefined || since < until;
export const NO_SPAN = { path: ["since"], message: "must be before until" };

/** A missing field is reported as missing; any other wrong value gets the given text. */
const saying = (text: string) => ({
  error: ({ input }: { readonly input?: unknown }): string => (input === undefined ? "is missing" : text),
});
export const number = (min: number, max: number) => {
  const text = saying(`must be a number from ${min} to ${max}`);
  return z.number(text).min(min, text).max(max, text);
};
export const whole = (min: number, max: number) => {
  const text = saying(`must be a whole number from ${min} to ${max}`);
  return z.int(text).min(min, text).max(max, text);
};

/** A whole number in a query. */
export const digits = (least: number, most: number) =>
  z
    .string()
    .regex(/^\d{1,7}$/, `must be ${least} to ${most}`)
    .transform(Number)
    .refine((value) => value >= least && value <= most, `must be ${least} to ${most}`)
    .meta({ type: "integer", minimum: least, maximum: most, pattern: undefined });

export const deliveryStatuses = z.enum(["pending", "delivered", "failed", "cancelled"]);
export const eventStatuses = z.enum(["pending", "delivered", "failed", "cancelled", "unmatched"]);
/** Stages at which an attempt fails without a usable response. */
export const attemptErrors = z.enum([
  "dns",
  "guard",
  "connect",
  "tls",
  "timeout",
  "reset",
  "protocol",
  "token",
  "transform",
]);
