/** Numbers with bounds, which their messages name. */
import { z } from "zod";

export const number = (min: number, max: number) => {
  const text = saying(`must be a number from ${min} to ${max}`);
  return z.number(text).min(min, text).max(max, text);
};
export const whole = (min: number, max: number) => {
  const text = saying(`must be a whole number from ${min} to ${max}`);
  return z.int(text).min(min, text).max(max, text);
};
