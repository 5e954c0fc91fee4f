/** Erases an event, or a key with all that is its own, once that is confirmed. */
import { ask, path } from "./api.ts";
import { Confirm } from "./confirm.ts";
import { el, part } from "./dom.ts";
import { notice, showToast } from "./elements.ts";
import { goFromHere } from "./route.ts";

interface EraseProps {
  readonly keyId: string;
  readonly close: () => void;
}

const WORDS = { yes: "Erase for ever", doing: "Erasing…" } as const;

export const EraseEvent = part(({ keyId, eventId, close }: EraseProps & { readonly eventId: string }) =>
  Confirm({
    ...WORDS,
    title: "Erase this event?",
    close,
    async act(wanted) {
      const leave = goFromHere();
      await ask("DELETE", path("/api-keys/{}/events/{}", [keyId, eventId]), { wanted });
      showToast("The event is erased");
      leave(["k", keyId, "events"]);
    },
    children: [
      notice(
        "bad",
        el.p(
          null,
          "Its data and its deliveries are deleted, those that are pending too. No attempt begins any more; one that is under way ends by itself. This cannot be undone.",
        ),
      ),
      el.p(null, "The audit keeps that you erased it, by its id. What receivers have got stays with them."),
      el.p({ class: "wrap" }, el.code(null, eventId)),
    ],
  }),
);

export const EraseKey = part(({ keyId, close, begun }: EraseProps & { readonly begun: () => void }) =>
  Confirm({
    ...WORDS,
    title: "Erase this key?",
    name: keyId,
    close,
    async act(wanted) {
      await ask("DELETE", path("/api-keys/{}", [keyId]), { wanted });
      showToast("The key is being erased");
      begun();
      close();
    },
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
    ],
  }),
);
