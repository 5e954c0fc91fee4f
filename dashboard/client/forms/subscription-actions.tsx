/** Has the actions on a subscription, with the dialogs of those that need a second thought: over its settings and its deliveries. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { Confirm } from "../kit/dialog.tsx";
import { Select } from "../kit/fields.tsx";
import { hostOf } from "../state/format.ts";
import { Button, line, notice, showToast, useAction } from "../kit/elements.tsx";
import { goFromHere } from "../state/route.ts";
import { secretKeeper } from "../kit/once.tsx";
import type { Glance, KeyDialogProps, Secreted, Subscription } from "../shapes.ts";
import { may } from "../state/token.ts";
import { SubscriptionForm } from "./subscription-form.tsx";

interface SubscriptionMenu {
  readonly buttons: readonly ComponentChildren[];
  readonly dialogs: readonly ComponentChildren[];
  readonly error: unknown;
}

/** @param one `undefined` until it is loaded */
export function useSubscriptionMenu(keyId: string, one: Glance | undefined, again: () => void): SubscriptionMenu {
  const [doing, setDoing] = useState<"edit" | "disable" | "rotate" | "delete" | undefined>(undefined);
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
  const toggle =
    one.status === "active" ? (
      <Button text="Disable…" act={() => setDoing("disable")} />
    ) : (
      <Button text="Enable" off={enable.busy} act={enable.run} />
    );
  return {
    error: enable.error,
    buttons: [
      may("change") && <Button text="Edit" act={() => setDoing("edit")} />,
      may("change") && toggle,
      may("rotate") && <Button text="Rotate secret" act={() => setDoing("rotate")} />,
      may("change") && <Button text="Delete" class="danger" act={() => setDoing("delete")} />,
    ],
    dialogs: [
      doing === "edit" && <SubscriptionForm keyId={keyId} one={one} close={close} saved={done} />,
      doing === "disable" && <Disable keyId={keyId} one={one} close={close} done={done} />,
      doing === "rotate" && <Rotate keyId={keyId} one={one} close={close} />,
      doing === "delete" && <DeleteSubscription keyId={keyId} one={one} close={close} />,
    ],
  };
}

interface ActionProps extends KeyDialogProps {
  readonly one: Subscription;
}

const OVERLAPS = [
  ["86400", "1 day (recommended)"],
  ["3600", "1 hour"],
  ["604800", "7 days"],
  ["0", "none: the old secret ends now"],
] as const;

const Rotate = ({ keyId, one, close }: ActionProps) => {
  const [overlap, setOverlap] = useState<string>(OVERLAPS[0][0]);
  return (
    <Confirm
      title="Rotate the secret"
      yes="Rotate"
      no="Cancel"
      kind="main"
      close={close}
      act={async (wanted) => {
        const show = secretKeeper();
        const body = { overlapSeconds: Number(overlap) };
        const route = path("/api-keys/{}/webhooks/{}/rotate-secret", [keyId, one.id]);
        show((await ask<Secreted>("POST", route, { body, wanted })).data);
        close();
      }}
    >
      <p>
        A new secret is made and shown once. During the overlap both secrets sign each delivery, so that you can put the
        new one in place without losing any.
      </p>
      <Select label="Overlap" value={overlap} options={OVERLAPS} change={setOverlap} />
      {overlap === "0" &&
        notice("warn", "Receivers that still verify with the old secret refuse every delivery from now on.")}
    </Confirm>
  );
};

interface DisableProps extends KeyDialogProps {
  readonly one: Glance;
  readonly done: () => void;
}

const Disable = ({ keyId, one, close, done }: DisableProps) => {
  const { backlog } = one.figures;
  const many = backlog >= 1_000 ? "1,000 deliveries or more" : backlog === 1 ? "1 delivery" : `${backlog} deliveries`;
  return (
    <Confirm
      title="Disable this subscription?"
      yes="Disable it"
      no="Keep it active"
      close={close}
      act={async (wanted) => {
        const body = { status: "disabled" };
        await ask("PATCH", path("/api-keys/{}/webhooks/{}", [keyId, one.id]), { body, wanted });
        showToast("Disabled");
        done();
      }}
    >
      <p>
        {backlog === 0 ? "No delivery is pending now." : `What is pending now, ${many}, ends as failed.`} Nothing is
        sent while it is disabled, and new events that match are kept as failed.
      </p>
      <p>Enabling it again resumes nothing by itself: replay then what failed.</p>
    </Confirm>
  );
};

const DeleteSubscription = ({ keyId, one, close }: ActionProps) => (
  <Confirm
    title="Delete this subscription?"
    yes="Delete for ever"
    doing="Deleting…"
    name={hostOf(one.url)}
    close={close}
    act={async (wanted) => {
      const leave = goFromHere();
      await ask("DELETE", path("/api-keys/{}/webhooks/{}", [keyId, one.id]), { wanted });
      showToast("Deleted");
      leave(["k", keyId, "subscriptions"]);
    }}
  >
    {notice("bad", <p>Deliveries under way are cancelled, pending ones too. This cannot be undone.</p>)}
    <dl>
      {line("URL", one.url)}
      {one.description !== undefined && line("Description", one.description)}
      {line("Id", <code>{one.id}</code>)}
    </dl>
  </Confirm>
);
