/** Confirms and runs the erasure of an event: it says first what is deleted and what stays. */
import { ask, path } from "./api.ts";
import { Dialog, form } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { notice, problem, showToast, useAction } from "./elements.ts";
import { goFromHere } from "./route.ts";
import type { EventDetail } from "./shapes.ts";

interface EraseProps {
  readonly keyId: string;
  readonly event: EventDetail;
  readonly close: () => void;
}

export const EraseEvent = part(({ keyId, event, close }: EraseProps) => {
  const { run, busy, error } = useAction(async (wanted) => {
    const leave = goFromHere();
    await ask("DELETE", path("/api-keys/{}/events/{}", [keyId, event.id]), { wanted });
    showToast("The event is erased");
    leave(["k", keyId, "events"]);
  });
  return Dialog({
    title: "Erase this event?",
    close,
    children: form({
      submit: run,
      children: [
        notice(
          "bad",
          el.p(
            null,
            "Its data and its deliveries are deleted, those that are pending too. No attempt begins any more; one that is under way ends by itself. This cannot be undone.",
          ),
        ),
        el.p(null, "The audit keeps that you erased it, by its id. What receivers have got stays with them."),
        el.p({ class: "wrap" }, el.code(null, event.id)),
        problem(error),
        el.div(
          { class: "row end" },
          el.button({ type: "button", onClick: close }, "Keep it"),
          el.button({ type: "submit", class: "danger", disabled: busy }, busy ? "Erasing…" : "Erase for ever"),
        ),
      ],
    }),
  });
});
