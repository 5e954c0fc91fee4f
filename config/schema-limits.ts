/** The shape of `limits` in the config: rows by endpoint, `"*"` and `check`. */
import { z } from "zod";
import { routeShape } from "../core/limits/route-limits.ts";
import { orFalse, pass, section, tokenValue, whole } from "./check-plan.ts";
import { didYouMean } from "./problems.ts";

const row = orFalse(section({ perMinute: whole(1, 1_000_000_000), per5s: whole(1, 1_000_000_000) }));
const check = section({ token: tokenValue });
const off = z.literal(false, { error: "can only be false: all rows off" });

/** @param endpoints endpoints that a row may name; the names of parameters do not matter */
export function limits(endpoints: readonly string[]): z.ZodType<Record<string, unknown>> {
  const shapes = new Set(endpoints.map(routeShape));
  return z.record(z.string(), z.unknown(), { error: "must be an object: { … }" }).superRefine((rows, ctx) => {
    const named = new Map<string, string>();
    for (const [name, value] of Object.entries(rows)) {
      if (value === undefined) continue;
      const shape = routeShape(name);
      const other = named.get(shape);
      named.set(shape, name);
      if (other !== undefined) {
        ctx.addIssue({ code: "custom", path: [name], message: `is the same endpoint as ${JSON.stringify(other)}` });
        continue;
      }
      if (name !== "check" && name !== "*" && !shapes.has(shape)) {
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
