/** Shows how a receiver verifies a delivery, in the languages of the guide. The code is loaded when it is opened. */
import { useState } from "preact/hooks";
import { el, part } from "./dom.ts";
import { Copy, problem, useAction } from "./elements.ts";
import { Select } from "./fields.ts";

type Receivers = (typeof import("relay:receivers"))["receivers"];

export const VerifyCode = part(() => {
  const [all, setAll] = useState<Receivers>([]);
  const [chosen, choose] = useState("Node");
  const { run, error } = useAction(async () => setAll((await import("relay:receivers")).receivers));
  const one = all.find(({ language }) => language === chosen);
  return el.details(
    {
      class: "verify",
      onToggle: ({ currentTarget }: { readonly currentTarget: HTMLDetailsElement }) => {
        if (currentTarget.open && all.length === 0) run();
      },
    },
    el.summary(null, "Code to verify a delivery"),
    problem(error, run),
    one !== undefined &&
      el.div(
        { class: "request" },
        el.div(
          { class: "row" },
          Select({
            label: "Language",
            bare: true,
            value: chosen,
            options: all.map(({ language }) => [language, language] as const),
            change: choose,
          }),
          Copy({ key: chosen, text: one.code, what: "the code", named: true }),
        ),
        el.p({ class: "quiet" }, "It takes the raw body, the headers by their names in lower case, and the secret."),
        el.pre({ tabIndex: 0 }, one.code),
      ),
  );
});
