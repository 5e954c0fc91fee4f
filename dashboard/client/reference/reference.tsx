/** `/docs`: the reference, drawn from the OpenAPI document, and the guides, with one search over both. */
import { render, type VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { link, problem } from "../kit/elements.tsx";
import { Field } from "../kit/fields.tsx";
import { useCell } from "../state/cell.ts";
import { place, refine, to } from "../state/route.ts";
import { anchorOf, Markdown } from "./markdown.tsx";
import { type Operation, OperationView, type Schemas } from "./operation.tsx";

interface Guide {
  readonly name: string;
  readonly text: string;
}
interface Texts {
  readonly operations: readonly Operation[];
  readonly schemas: Schemas;
  readonly guides: readonly Guide[];
}
interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Omit<Operation, "method" | "path">>>>>;
  readonly components: { readonly schemas: Schemas };
}

const json = async <T,>(address: string): Promise<T> => (await (await fetch(address)).json()) as T;

async function load(): Promise<Texts> {
  const at = document.documentElement.dataset["guides"] ?? "";
  const [api, guides] = await Promise.all([json<OpenApi>("openapi.json"), json<readonly Guide[]>(at)]);
  const operations = Object.entries(api.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, one]) => ({ ...one, path, method: method.toUpperCase() })),
  );
  return { operations, schemas: api.components.schemas, guides };
}

const titleOf = ({ text, name }: Guide): string => /^# (.*)$/m.exec(text)?.[1]?.replaceAll("`", "") ?? name;

/** A place that a search may find: an operation, or a section of a guide. */
type Found = Readonly<Record<"title" | "where" | "text", string>> & { readonly parts: readonly string[] };

const indexOf = ({ operations, guides }: Texts): readonly Found[] => [
  ...operations.map((one) => {
    const { summary: title, operationId, description, parameters } = one;
    const where = `${one.method} ${one.path}`;
    const text = JSON.stringify([title, where, description, parameters]).toLowerCase();
    return { title, where, parts: ["operation", operationId], text };
  }),
  ...guides.flatMap((guide) =>
    guide.text.split(/^(?=##? )/m).map((section) => {
      const [, marks, title = ""] = /^(##?) (.*)$/m.exec(section) ?? [];
      const parts = ["guide", guide.name, ...(marks === "##" ? [anchorOf(title)] : [])];
      return { title, where: titleOf(guide), parts, text: section.toLowerCase() };
    }),
  ),
];

const MOST = 30;

/** All words must be there; what has them in its title comes first. */
function search(all: readonly Found[], asked: string): readonly Found[] {
  const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
  const isTitled = ({ title }: Found): number => Number(words.every((word) => title.toLowerCase().includes(word)));
  const found = all.filter(({ text }) => words.every((word) => text.includes(word)));
  return found.toSorted((a, b) => isTitled(b) - isTitled(a));
}

const Contents = ({ operations, guides }: Texts): VNode => {
  const [kind, id] = useCell(place).parts;
  const item = (parts: readonly string[], text: string) => (
    <li key={parts.join("/")}>
      <a href={to(parts)} aria-current={parts[0] === kind && parts[1] === id ? "page" : undefined}>
        {text}
      </a>
    </li>
  );
  return (
    <details class="contents" open={matchMedia("(min-width: 62rem)").matches}>
      <summary>Contents</summary>
      <nav aria-label="Contents">
        <h2>Guides</h2>
        <ul>{guides.map((one) => item(["guide", one.name], titleOf(one)))}</ul>
        {[...Map.groupBy(operations, ({ tags }) => tags[0])].map(([tag, own]) => [
          <h2>{tag}</h2>,
          <ul>{own.map((one) => item(["operation", one.operationId], one.summary))}</ul>,
        ])}
      </nav>
    </details>
  );
};

const Shown = (texts: Texts): VNode => {
  const { parts, query } = useCell(place);
  const [kind, id, anchor] = parts;
  const { q: asked = "" } = query;
  const index = useMemo(() => indexOf(texts), [texts.guides]);
  useEffect(() => {
    if (kind === undefined) return;
    const target = document.getElementById(anchor ?? "") ?? document.querySelector<HTMLElement>("main h1");
    target?.focus();
  }, [kind, id, anchor]);
  if (asked.trim().length > 1) {
    const found = search(index, asked);
    return (
      <div class="stack">
        <h1>Found</h1>
        <p role="status">{`${found.length} places${found.length > MOST ? `, the first ${MOST} of them` : ""}`}</p>
        <ul class="told">
          {found.slice(0, MOST).map(({ title, where, parts: at }) => (
            <li>
              {link(to(at), title)} <small>{where}</small>
            </li>
          ))}
        </ul>
      </div>
    );
  }
  const one = texts.operations.find(({ operationId }) => kind === "operation" && operationId === id);
  if (one !== undefined) return <OperationView key={id} one={one} all={texts.schemas} />;
  const guide = texts.guides.find(({ name }) => name === (kind === undefined ? "publish" : id));
  if (guide === undefined) return <h1>There is no such page</h1>;
  return <Markdown key={id} text={guide.text} guide={guide.name} />;
};

const App = () => {
  const [texts, setTexts] = useState<Texts | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const { query } = useCell(place);
  useEffect(() => void load().then(setTexts, setError), []);
  return (
    <div class="shell">
      <header class="top reference">
        <p class="brand">Relaybox</p>
        <Field label="Search" value={query["q"] ?? ""} change={(q) => refine({ q })} />
        {texts !== undefined && <Contents {...texts} />}
        <p>
          {link("developers", "Dashboard")} · {link("openapi.json", "openapi.json")}
        </p>
      </header>
      <main id="main" tabIndex={-1}>
        {problem(error)}
        {texts === undefined ? <p role="status">Loading…</p> : <Shown {...texts} />}
      </main>
    </div>
  );
};

const root = document.getElementById("app");
if (root !== null) {
  root.textContent = "";
  render(<App />, root);
}
