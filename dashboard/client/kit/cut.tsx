/** Shows ids, URLs and names so that no word of them is broken: cut in the middle, or on several lines. */
import type { ComponentChildren, VNode } from "preact";
import { Copy, link } from "./elements.tsx";
import { to } from "../state/route.ts";

/** Letters at the end that stay. */
const TAIL = 14;

/** Shows a URL on one line: where there is no room for all of it, its middle is left out, and its end stays. */
export function cutUrl(url: string): VNode {
  const text = url.replace(/^https:\/\//, "");
  const head = text.length - Math.min(TAIL, Math.floor(text.length / 2));
  return (
    <span class="cut" title={url}>
      <span>{text.slice(0, head)}</span>
      <span>{text.slice(head)}</span>
    </span>
  );
}

/** Leads to an event by its id, which is cut in the same way. */
export const eventLink = (keyId: string, id: string, brief = false): VNode => (
  <a href={to(["k", keyId, "events", id])} class={`id one-line${brief ? " brief" : ""}`} title={id} aria-label={id}>
    {id.length > TAIL + 6 ? [<span>{id.slice(0, -TAIL)}</span>, id.slice(-TAIL)] : [id]}
  </a>
);

/** Breaks between the parts of a name or URL, not in them. */
export const parted = (text: string): ComponentChildren[] =>
  text.split(/(?<=[:./?&=])(?=[^/])/).flatMap((one, i) => (i === 0 ? [one] : [<wbr />, one]));

export const typeName = (type: string): VNode => <code>{parted(type)}</code>;

/** Shows, over a heading, the list that leads there, and the id of what is shown, to copy. */
export const trail = (keyId: string, list: "events" | "subscriptions", id: string): readonly ComponentChildren[] => [
  link(to(["k", keyId, list]), list === "events" ? "Events" : "Subscriptions"),
  " / ",
  <code>{id}</code>,
  " ",
  <Copy text={id} what="the id" />,
];
