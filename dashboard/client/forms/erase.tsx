/** Erases an event, or a key with all that is its own, once that is confirmed. */
import { ask, path } from "../state/api.ts";
import { Confirm } from "../kit/confirm.tsx";
import { notice, showToast } from "../kit/elements.tsx";
import { goFromHere } from "../state/route.ts";

interface EraseProps {
  readonly keyId: string;
  readonly close: () => void;
}

const WORDS = { yes: "Erase for ever", doing: "Erasing…" } as const;

export const EraseEvent = ({ keyId, eventId, close }: EraseProps & { readonly eventId: string }) => (
  <Confirm
    {...WORDS}
    title="Erase this event?"
    close={close}
    act={async (wanted) => {
      const leave = goFromHere();
      await ask("DELETE", path("/api-keys/{}/events/{}", [keyId, eventId]), { wanted });
      showToast("The event is erased");
      leave(["k", keyId, "events"]);
    }}
  >
    {notice(
      "bad",
      <p>
        Its data and its deliveries are deleted, those that are pending too. No attempt begins any more; one that is
        under way ends by itself. This cannot be undone.
      </p>,
    )}
    <p>The audit keeps that you erased it, by its id. What receivers have got stays with them.</p>
    <p class="wrap">
      <code>{eventId}</code>
    </p>
  </Confirm>
);

export const EraseKey = ({ keyId, close, begun }: EraseProps & { readonly begun: () => void }) => (
  <Confirm
    {...WORDS}
    title="Erase this key?"
    name={keyId}
    close={close}
    act={async (wanted) => {
      await ask("DELETE", path("/api-keys/{}", [keyId]), { wanted });
      showToast("The key is being erased");
      begun();
      close();
    }}
  >
    {notice(
      "bad",
      <p>
        Its subscriptions with their secrets, its events and all deliveries are deleted, those that are pending too.
        This cannot be undone.
      </p>,
    )}
    <p>
      Stop publishing on it first: what is published from now on stays. The audit stays, and says when all is deleted.
    </p>
  </Confirm>
);
