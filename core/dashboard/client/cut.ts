/** Shows ids, URLs and names so that no word of them is broken: cut in the middle, or on several lines. */
import type { ComponentChildren, VNode } from "preact";
import { el } from "./dom.ts";
import { to } from "./route.ts";

/** Two parts of a line: where there is no room for all of it, its middle is left out, and its end stays. */
function cut(text: string): readonly VNode[] {
  const head = text.length - Math.min(14, Math.floor(text.length / 2));
  return [el.span(null, text.slice(0, head)), el.span(null, text.slice(head))];
}

/** Shows a URL on one line. */
export const cutUrl = (url: string): VNode =>
  el.span({ class: "cut", title: url }, ...cut(url.replace(/^https:\/\//, "")));

/** Leads to an event by its id, on one line. */
export const eventLink = (keyId: string, id: string, brief = false): VNode =>
  el.a(
    { href: to(["k", keyId, "events", id]), class: brief ? "cut id brief" : "cut id", title: id, "aria-label": id },
    ...cut(id),
  );

/** Breaks between the parts of a name or URL, not in them. */
export const parted = (text: string): ComponentChildren[] =>
  text.split(/(?<=[:./?&=])(?=[^/])/).flatMap((one, i) => (i === 0 ? [one] : [el.wbr(null), one]));

export const typeName = (type: string): VNode => el.code(null, ...parted(type));
