/** The shape of `limits` in the config: rows by endpoint, `"*"` and `check`. */
import { z } from "zod";
import { orFalse, pass, section, token, whole } from "./checks.ts";
import { didYouMean } from "./problems.ts";

const row = orFalse(section({ perMinute: whole(1, 1_000_000_000), per5s: whole(1, 1_000_000_000) }));
const check = section({ token });
const off = z.literal(false, { error: "can only be false: all rows off" });

/** @param endpoints what a row may name */
export function limits(endpoints: readonly string[]): z.ZodType<Record<string, unknown>> {
  return z.record(z.string(), z.unknown(), { error: "must be an object: { … }" }).superRefine((rows, ctx) => {
    for (const [name, value] of Object.entries(rows)) {
      if (value === undefined) continue;
      if (name !== "check" && name !== "*" && !endpoints.includes(name)) {
        const message = `names no endpoint${didYouMean(name, endpoints)}; write it as "GET /path/{param}"`;
        ctx.addIssue({ code: "custom", path: [name], message });
        continue;
      }
      const schema: z.ZodType = name === "check" ? check : name === "*" ? off : row;
      const result = schema.safeParse(value);
      if (!result.success) pass(result.error, ctx, [name]);
    }
  });
}
