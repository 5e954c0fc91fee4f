/** Shows what a receiver wrote, as text in a box of its own that says where it comes from. */
import { el, part } from "./dom.ts";

interface ExcerptProps {
  readonly text: string;
  readonly truncated: boolean;
}

export const Excerpt = part(({ text, truncated }: ExcerptProps) =>
  el.figure(
    { class: "excerpt" },
    el.figcaption({ class: "quiet" }, "The receiver answered", truncated && " (the beginning of it)"),
    el.pre({ tabIndex: 0, dir: "ltr" }, text),
  ),
);
