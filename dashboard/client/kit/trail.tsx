/** The line over a heading: the list that leads here, and the id of what is shown, to copy. */
import type { ComponentChildren } from "preact";
import { Copy } from "./elements.tsx";
import { to } from "../state/route.ts";

export const trail = (
  keyId: string,
  list: "events" | "subscriptions",
  text: string,
  id: string,
): readonly ComponentChildren[] => [
  <a href={to(["k", keyId, list])}>{text}</a>,
  " / ",
  <code>{id}</code>,
  " ",
  <Copy text={id} what="the id" />,
];
