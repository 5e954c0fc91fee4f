/** A signing secret of one's own as a request gives it. A value that is refused is never repeated. */
import { z } from "zod";
import { LONGEST_SECRET, SECRET_FORM, secretProblem } from "../../model/signing-secret.ts";

export const ownSecret = z
  .string()
  .superRefine((text, ctx) => {
    const message = secretProblem(text);
    if (message !== undefined) ctx.addIssue({ code: "custom", message });
  })
  .meta({
    maxLength: LONGEST_SECRET,
    pattern: SECRET_FORM.source,
    description:
      "A signing secret of one's own, such as one that the receiver holds already: `whsec_` and base64 of 24 to 64 bytes. The relay makes one when it is left out. A secret that is given is not answered.",
  });
