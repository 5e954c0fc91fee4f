/** Numbers with bounds, which their messages name. */
import { z } from "zod";

/** A field that is left out is said to be missing; any other wrong value gets the one text. */
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
