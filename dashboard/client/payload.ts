/** Shows what was published: laid out for people, or byte for byte. */
import { useMemo, useState } from "preact/hooks";
import { el, part } from "./dom.ts";
import { Copy } from "./elements.ts";
import { choice } from "./fields.ts";

const LONG = 20_000;

/**
 * Lays out JSON by inserting line breaks and blanks between its tokens. No value is read and written again, which would
 * change numbers, escapes and the order of names.
 */
export function layOut(json: string): string {
  const out: string[] = [];
  let depth = 0;
  const line = (): void => void out.push("\n", "  ".repeat(depth));
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s"[\]{},:]+/g)) {
    const last = out.at(-1);
    if (token === "{" || token === "[") {
      out.push(token);
      depth++;
      line();
    } else if (token === "}" || token === "]") {
      depth--;
      // An empty one stays on its line.
      if (last !== undefined && out.at(-3) === (token === "}" ? "{" : "[")) out.splice(-2);
      else line();
      out.push(token);
    } else if (token === ",") {
      out.push(token);
      line();
    } else out.push(token === ":" ? ": " : token);
  }
  return out.join("");
}

const VIEWS = [
  ["laid-out", "Formatted"],
  ["raw", "Raw"],
] as const;

export const Payload = part(({ data }: { readonly data: string }) => {
  const [all, setAll] = useState(false);
  const [view, setView] = useState("laid-out");
  const laidOut = useMemo(() => layOut(data), [data]);
  const shown = view === "raw" ? data : laidOut;
  return el.section(
    { class: "card", "aria-labelledby": "data" },
    el.header(
      { class: "card-head" },
      el.h2({ id: "data" }, "Data ", Copy({ text: data, what: "the data" })),
      choice({ label: "How the data is shown", value: view, options: VIEWS, change: setView }),
    ),
    view === "raw" && el.p({ class: "quiet" }, "Byte for byte as it was published, and as receivers get it."),
    el.pre({ tabIndex: 0, "aria-label": "The data" }, all ? shown : shown.slice(0, LONG)),
    shown.length > LONG && !all && el.button({ type: "button", onClick: () => setAll(true) }, "Show all of it"),
  );
});
