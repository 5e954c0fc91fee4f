/** Shows who changed what on a key, newest first, and has the button that erases it. The filter is in the address. */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { useNames } from "../state/api-keys.ts";
import { refine, to } from "../state/route.ts";
import { badge, Button, empty, link, notice, PageFrame, showToast, TimeSwitch, When } from "../kit/elements.tsx";
import { useAsk } from "../state/load.ts";
import type { AuditLine, KeyDialogProps, ViewProps } from "../shapes.ts";
import { ListView } from "../kit/list.tsx";
import { may } from "../state/token.ts";
import { Select } from "../kit/fields.tsx";
import { Confirm } from "../kit/dialog.tsx";

/** Kinds of actions that can be listed alone. */
const KINDS = [
  ["", "Everything"],
  ["subscription", "Subscriptions"],
  ["secret", "Secrets"],
  ["event", "Events"],
  ["delivery", "Deliveries"],
  ["portal_link", "Links to the portal"],
  ["account", "Users"],
  ["login", "Logins"],
] as const;

/** `event.replayed` → `Event replayed` */
const wordsOf = (action: string): string =>
  action.replaceAll(/[._]/g, " ").replace(/^./, (first) => first.toUpperCase());

type Name = (id: string) => string;
const subscriptionLink = (keyId: string, id: string, name: Name) =>
  link(to(["k", keyId, "subscriptions", id]), name(id));

/** Leads to what was changed, unless that is gone. */
function targetOf(keyId: string, { action, target }: AuditLine, name: Name) {
  if (target === "") return "–";
  const isSubscription = target.startsWith("sub_");
  const gone = isSubscription
    ? action === "subscription.deleted"
    : action === "event.erased" || !/^(?:event|delivery)\./.test(action);
  if (gone) return <code class="id">{target}</code>;
  return isSubscription
    ? subscriptionLink(keyId, target, name)
    : link(to(["k", keyId, "events", target]), target, "id");
}

const detailOf = (keyId: string, { detail = "" }: AuditLine, name: Name) =>
  /^sub_\w+$/.test(detail) ? subscriptionLink(keyId, detail, name) : detail;

const PAGE = 50;

export const Audit = ({ keyId, query: { action, cursor } }: ViewProps) => {
  const [erasing, setErasing] = useState(false);
  const page = { action, cursor, limit: String(PAGE) };
  const load = useAsk<readonly AuditLine[]>(path("/api-keys/{}/audit", [keyId], page));
  const ids = (load.data?.data ?? []).flatMap(({ target, detail = "" }) => [target, detail]);
  const name = useNames(
    keyId,
    ids.filter((id) => id.startsWith("sub_")),
  );
  return (
    <PageFrame
      title="Audit"
      kicker={<code>{keyId}</code>}
      actions={[<TimeSwitch />, may("erase") && <Button text="Erase the key…" act={() => setErasing(true)} />]}
    >
      {erasing && <EraseKey keyId={keyId} begun={load.again} close={() => setErasing(false)} />}
      <div class="filters" role="search" aria-label="Filters">
        <Select
          label="What"
          value={action ?? ""}
          options={KINDS}
          change={(kind) => refine({ cursor: undefined, action: kind })}
        />
      </div>
      <ListView
        name="Audit"
        load={load}
        keyOf={({ at }, i) => `${at} ${i}`}
        columns={{
          What: (line) => (
            <span>
              <span class="row">
                {wordsOf(line.action)}
                {line.result === "refused" && badge("failed", "refused")}
              </span>
              {line.detail !== undefined && <small>{detailOf(keyId, line, name)}</small>}
            </span>
          ),
          Of: (line) => targetOf(keyId, line, name),
          By: ({ by }) => by,
          From: ({ address }) => address ?? "–",
          When: ({ at }) => <When at={at} />,
        }}
        empty={
          load.data?.meta.nextCursor === undefined &&
          empty(
            action === undefined ? "Nothing was changed yet" : "Nothing of this kind",
            "Each change of a subscription and each replay is listed here. It is stored in the same commit as the change itself.",
          )
        }
        size={PAGE}
        cursor={cursor}
      />
    </PageFrame>
  );
};

const EraseKey = ({ keyId, close, begun }: KeyDialogProps & { readonly begun: () => void }) => (
  <Confirm
    title="Erase this key?"
    yes="Erase for ever"
    doing="Erasing…"
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
