/** The actions on a subscription, with their dialogs: the same over its settings and over its deliveries. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { showToast, useAction } from "../kit/elements.tsx";
import { may } from "../state/may.ts";
import type { Glance } from "../shapes.ts";
import { DeleteSubscription, Disable, Rotate } from "../forms/subscription-actions.tsx";
import { SubscriptionForm } from "../forms/subscription-form.tsx";

type Doing = "edit" | "disable" | "rotate" | "delete";

interface SubscriptionMenu {
  readonly buttons: readonly ComponentChildren[];
  readonly dialogs: readonly ComponentChildren[];
  readonly error: unknown;
}

/** @param one `undefined` until it is loaded */
export function useSubscriptionMenu(keyId: string, one: Glance | undefined, again: () => void): SubscriptionMenu {
  const [doing, setDoing] = useState<Doing | undefined>(undefined);
  const enable = useAction(async () => {
    await ask("PATCH", path("/api-keys/{}/webhooks/{}", [keyId, one?.id ?? ""]), { body: { status: "active" } });
    showToast("Enabled");
    again();
  });
  if (one === undefined) return { buttons: [], dialogs: [], error: undefined };
  const close = (): void => setDoing(undefined);
  const done = (): void => {
    close();
    again();
  };
  const button = (text: string, what: Doing, kind = "") => (
    <button type="button" class={kind} onClick={() => setDoing(what)}>
      {text}
    </button>
  );
  return {
    error: enable.error,
    buttons: [
      may("change") && button("Edit", "edit"),
      may("change") &&
        (one.status === "active" ? (
          button("Disable…", "disable")
        ) : (
          <button type="button" disabled={enable.busy} onClick={enable.run}>
            Enable
          </button>
        )),
      may("rotate") && button("Rotate secret", "rotate"),
      may("change") && button("Delete", "delete", "danger"),
    ],
    dialogs: [
      doing === "edit" && <SubscriptionForm keyId={keyId} one={one} close={close} saved={done} />,
      doing === "disable" && <Disable keyId={keyId} one={one} close={close} done={done} />,
      doing === "rotate" && <Rotate keyId={keyId} one={one} close={close} />,
      doing === "delete" && <DeleteSubscription keyId={keyId} one={one} close={close} />,
    ],
  };
}
