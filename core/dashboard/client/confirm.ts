/** Asks before something that cannot be taken back: it says what will happen, and may want a name typed. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Dialog, form } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { problem, useAction } from "./elements.ts";
import { Field } from "./fields.ts";

interface ConfirmProps {
  readonly title: string;
  /** What will happen. */
  readonly children: ComponentChildren;
  /** The text of the button that does it, and while it is being done. */
  readonly yes: string;
  readonly doing?: string;
  readonly no?: string;
  /** Must be typed before. */
  readonly name?: string;
  /** @default one of danger */
  readonly kind?: "main" | "danger";
  readonly act: (wanted: AbortSignal) => Promise<void>;
  readonly close: () => void;
}

export const Confirm = part((props: ConfirmProps) => {
  const { title, children, yes, doing = "One moment…", no = "Keep it", name, kind = "danger", act, close } = props;
  const [typed, setTyped] = useState("");
  const named = name === undefined || typed.trim() === name;
  const { run, busy, error } = useAction(async (wanted) => {
    if (!named) throw new Error(`Type ${name} to confirm.`);
    await act(wanted);
  });
  return Dialog({
    title,
    close,
    children: form({
      submit: run,
      children: [
        children,
        name !== undefined && Field({ label: `Type ${name} to confirm`, value: typed, change: setTyped, focus: true }),
        problem(error),
        el.div(
          { class: "row end" },
          el.button({ type: "button", onClick: close }, no),
          el.button({ type: "submit", class: kind, disabled: busy || !named }, busy ? doing : yes),
        ),
      ],
    }),
  });
});
