/** The shape of `signature.headers`: headers of a delivery under names of one's own. */
import { z } from "zod";
import { HEADER_NAME, MAX_HEADER_NAME, mayStandBeside, REPEATABLE } from "../core/model/header-names.ts";

const MOST = 16;

export const repeatedHeaders = z
  .record(z.string(), z.enum(REPEATABLE, `must be one of ${REPEATABLE.join(", ")}`), {
    error: "must be an object: { … }",
  })
  .superRefine((given, ctx) => {
    const names = Object.keys(given);
    const refuse = (path: string[], message: string): void => ctx.addIssue({ code: "custom", path, message });
    if (names.length > MOST) refuse([], `may be at most ${MOST}`);
    const seen = new Set<string>();
    for (const name of names) {
      const lower = name.toLowerCase();
      if (name.length > MAX_HEADER_NAME || !HEADER_NAME.test(name)) refuse([name], "is not a header name");
      else if (!mayStandBeside(name)) refuse([name], "is a header that a delivery or its connection has already");
      else if (seen.has(lower)) refuse([name], "is given more than once");
      seen.add(lower);
    }
  });
