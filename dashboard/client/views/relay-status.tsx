/** Shows the relay itself to users that own every key: nodes, storage, backlog, refusals. */
import { useState } from "preact/hooks";
import { path } from "../state/api.ts";
import { NeedsAttention, useAttention } from "../kit/attention.tsx";
import { Choice } from "../kit/fields.tsx";
import { bytes, count, duration } from "../state/format.ts";
import { Charts, RANGES } from "./overview.tsx";
import { badge, line, PageFrame, problem, skeleton } from "../kit/elements.tsx";
import { useAsk, useEvery } from "../state/load.ts";
import type { Chart, Range } from "../shapes.ts";

type Facts = Readonly<Record<string, unknown>>;
type Status = Readonly<Record<string, unknown>> & { readonly figures?: Chart };

const REFRESH_MS = 15_000;

export const RelayStatus = () => {
  const [range, setRange] = useState<Range>("1h");
  const { data, error, again } = useAsk<Status>(path("/relay/status", [], { range }));
  useEvery(again, REFRESH_MS);
  const groups = Object.entries(data?.data ?? {}).filter(
    ([name, value]) => name !== "figures" && typeof value === "object" && value !== null,
  );
  return (
    <PageFrame
      title="The relay"
      actions={<Choice label="Range" value={range} options={RANGES} change={(next) => setRange(next as Range)} />}
    >
      <NeedsAttention load={useAttention()} wide />
      {problem(error, again) ?? (data === undefined && skeleton())}
      <div class="groups">{groups.flatMap(([name, value]) => cards(name, value as Facts))}</div>
      {data?.data.figures !== undefined && <Charts data={data.data.figures} />}
    </PageFrame>
  );
};

/** Makes one card per group; a list becomes a card for each of its items. */
const cards = (name: string, value: Facts | readonly Facts[]) =>
  (Array.isArray(value) ? (value as readonly Facts[]) : [value as Facts]).map((one, i) => (
    <section key={`${name} ${i}`} class="card">
      <h2>{words(name)}</h2>
      <dl>
        {Object.entries(one)
          .filter(([, inner]) => inner !== null && inner !== undefined)
          .map(([key, inner]) => line(words(key), shown(key, inner)))}
      </dl>
    </section>
  ));

/** Names that say little by themselves. */
const WORDS: Readonly<Record<string, string>> = {
  parts: "What it depends on",
  rssBytes: "Memory",
  bytes: "Size",
  pid: "Process id",
  logBytes: "Write-ahead log",
  freeBytes: "Free disk space",
  reusableBytes: "Reusable space",
  leased: "Held by a node",
};

/** A part says whether it is ready, and why not. */
function partShown({ ready, ...more }: Facts) {
  const rest = Object.values(more).filter((one) => typeof one === "string");
  return (
    <span>
      {typeof ready === "boolean" && badge(ready ? "healthy" : "failing", ready ? "ready" : "not ready")}
      {rest.length > 0 && <small>{rest.join(", ")}</small>}
    </span>
  );
}

/** `oldestDueAt` → `Oldest due at` */
const words = (name: string): string =>
  WORDS[name] ??
  name
    .replaceAll(/([A-Z])/g, " $1")
    .replace(/ (bytes|ms)$/i, "")
    .toLowerCase()
    .replace(/^./, (first) => first.toUpperCase());

function shown(name: string, value: unknown) {
  if (name === "state") return badge(value === "running" ? "healthy" : "failing", String(value));
  if (typeof value === "object") return partShown(value as Facts);
  if (typeof value === "string" || typeof value === "boolean") return String(value);
  if (typeof value !== "number") return "–";
  if (/bytes$/i.test(name)) return bytes(value);
  if (/ms$/i.test(name)) return duration(value);
  return name === "pid" ? String(value) : count(value);
}
