/** Confirms and runs the erasure of a key with all that is its own: its name must be typed. */
import { useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { Dialog, form } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { Field } from "./fields.ts";
import { notice, problem, showToast, useAction } from "./elements.ts";

interface EraseProps {
  readonly keyId: string;
  readonly close: () => void;
  readonly begun: () => void;
}

export const EraseKey = part(({ keyId, close, begun }: EraseProps) => {
  const [typed, setTyped] = useState("");
  const { run, busy, error } = useAction(async (wanted) => {
    if (typed.trim() !== keyId) throw new Error(`Type ${keyId} to confirm.`);
    await ask("DELETE", path("/api-keys/{}", [keyId]), { wanted });
    showToast("The key is being erased");
    begun();
    close();
  });
  return Dialog({
    title: "Erase this key?",
    close,
    children: form({
      submit: run,
      children: [
        notice(
          "bad",
          el.p(
            null,
            "Its subscriptions with their secrets, its events and all deliveries are deleted, those that are pending too. This cannot be undone.",
          ),
        ),
        el.p(
          null,
          "Stop publishing on it first: what is published from now on stays. The audit stays, and says when all is deleted.",
        ),
        Field({ label: `Type ${keyId} to confirm`, value: typed, change: setTyped, focus: true }),
        problem(error),
        el.div(
          { class: "row end" },
          el.button({ type: "button", onClick: close }, "Keep it"),
          el.button(
            { type: "submit", class: "danger", disabled: busy || typed.trim() !== keyId },
            busy ? "Erasing…" : "Erase for ever",
          ),
        ),
      ],
    }),
  });
});
