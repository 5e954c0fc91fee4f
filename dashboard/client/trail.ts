/** The line over a heading: the list that leads here, and the id of what is shown, to copy. */
import type { ComponentChildren } from "preact";
import { el } from "./dom.ts";
import { Copy } from "./elements.ts";
import { to } from "./route.ts";

export const trail = (
  keyId: string,
  list: "events" | "subscriptions",
  text: string,
  id: string,
): readonly ComponentChildren[] => [
  el.a({ href: to(["k", keyId, list]) }, text),
  " / ",
  el.code(null, id),
  " ",
  Copy({ text: id, what: "the id" }),
];
