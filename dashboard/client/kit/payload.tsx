/** Shows what was published: laid out for people, or byte for byte. */
import { useMemo, useState } from "preact/hooks";
import { Button, Copy } from "./elements.tsx";
import { Choice } from "./fields.tsx";

const LONG = 20_000;

/** Lays out JSON by blanks between its tokens: values read and written again would change. */
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

export const Payload = ({ data }: { readonly data: string }) => {
  const [all, setAll] = useState(false);
  const [view, setView] = useState("laid-out");
  const laidOut = useMemo(() => layOut(data), [data]);
  const shown = view === "raw" ? data : laidOut;
  return (
    <section class="card" aria-labelledby="data">
      <header class="card-head">
        <h2 id="data">
          Data <Copy text={data} what="the data" />
        </h2>
        <Choice label="How the data is shown" value={view} options={VIEWS} change={setView} />
      </header>
      {view === "raw" && <p class="quiet">Byte for byte as it was published, and as receivers get it.</p>}
      <pre tabIndex={0} aria-label="The data">
        {all ? shown : shown.slice(0, LONG)}
      </pre>
      {shown.length > LONG && !all && <Button text="Show all of it" act={() => setAll(true)} />}
    </section>
  );
};
