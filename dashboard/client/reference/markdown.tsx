/** Draws the guides: the part of Markdown that they are written in, as elements, so that no text becomes markup. */
import { type ComponentChildren, h, type VNode } from "preact";
import { table } from "../kit/list.tsx";
import { to } from "../state/route.ts";

/** The anchor of a heading, as the links between the guides write it. */
export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|!?\[((?:[^\][]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g;

/** Returns the address of what a guide links to, where the page has it. */
function targetOf(address: string, guide: string): string | undefined {
  if (address.startsWith("https:")) return address;
  const found = /^(?:([\w-]+)\.md)?(?:#(.+))?$/.exec(address);
  return found === null ? undefined : to(["guide", found[1] ?? guide, found[2] ?? ""].filter(Boolean));
}

export function inline(text: string, guide: string): readonly ComponentChildren[] {
  let end = 0;
  const parts = [...text.matchAll(INLINE)].flatMap((found): readonly ComponentChildren[] => {
    const [all, , code, strong, label = "", address = ""] = found;
    const before = text.slice(end, found.index);
    end = found.index + all.length;
    if (code !== undefined) return [before, <code>{code}</code>];
    if (strong !== undefined) return [before, <strong>{inline(strong, guide)}</strong>];
    const target = all.startsWith("!") ? undefined : targetOf(address, guide);
    return [before, target === undefined ? label : <a href={target}>{inline(label, guide)}</a>];
  });
  return [...parts, text.slice(end)];
}

const cellsOf = (row: string): readonly string[] => row.replaceAll(/^\| ?|\s*\|\s*$/g, "").split(/\s*(?<!\\)\|\s*/);

function block(text: string, guide: string): VNode {
  const [, code] = /^```.*\n([^]*?)\n?```$/.exec(text) ?? [];
  if (code !== undefined) return <pre tabIndex={0}>{code}</pre>;
  const [, marks = "", words = ""] = /^(#{1,4}) (.*)$/.exec(text) ?? [];
  if (marks !== "")
    return h(`h${Math.min(marks.length, 3)}`, { id: anchorOf(words), tabIndex: -1 }, inline(words, guide));
  if (text.startsWith("|")) {
    const [head = [], , ...rows] = text.split("\n").map(cellsOf);
    const cell = (i: number) => (row: readonly string[]) => inline((row[i] ?? "").replaceAll("\\|", "|"), guide);
    const columns = Object.fromEntries(
      head.map((name, i) => [name.replaceAll("`", "") || (i === 0 ? "What" : "Meaning"), cell(i)]),
    );
    return table(`${head[0]}: ${rows.map(([first]) => first).join(", ")}`, rows, (_, i) => String(i), columns);
  }
  if (!/^(?:-|\d+\.) /.test(text)) return <p>{inline(text.replaceAll("\n", " "), guide)}</p>;
  const items = text.split(/^(?:-|\d+\.) /m).slice(1);
  const [List, look] = text.startsWith("-") ? (["ul", "told"] as const) : (["ol", "steps"] as const);
  const told = items.map((item) => <li>{inline(item.replaceAll(/\s+/g, " "), guide)}</li>);
  return <List class={look}>{told}</List>;
}

const BLOCKS = /^```[^]*?^```$|^#{1,4} .*$|^(?!```|#)(?:(?!\n\n|\n```)[^])+/gm;

/** @param guide its name, for links within it */
export const Markdown = ({ text, guide }: { readonly text: string; readonly guide: string }) => (
  <div class="stack">{(text.match(BLOCKS) ?? []).map((one) => block(one.trim(), guide))}</div>
);
