/** Shows who changed what on a key, newest first, and has the button that erases it. The filter is in the address. */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { EraseKey } from "../forms/erase.tsx";
import { useNames } from "../state/known-names.ts";
import { refine, to } from "../state/route.ts";
import { empty, PageFrame, problem, skeleton, TimeSwitch, When } from "../kit/elements.tsx";
import { useLoad } from "../state/load.ts";
import type { AuditLine } from "../shapes.ts";
import { pager, table } from "../kit/data-table.tsx";
import { may } from "../state/may.ts";
import { Select } from "../kit/fields.tsx";
import { lookedBack } from "../kit/search.tsx";

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
const subscriptionLink = (keyId: string, id: string, name: Name) => (
  <a href={to(["k", keyId, "subscriptions", id])}>{name(id)}</a>
);

/** Leads to what was changed, unless that is gone. */
function targetOf(keyId: string, { action, target }: AuditLine, name: Name) {
  if (target === "") return "–";
  if (target.startsWith("sub_"))
    return action === "subscription.deleted" ? <code class="id">{target}</code> : subscriptionLink(keyId, target, name);
  const gone = action === "event.erased" || !/^(?:event|delivery)\./.test(action);
  return gone ? (
    <code class="id">{target}</code>
  ) : (
    <a href={to(["k", keyId, "events", target])} class="id">
      {target}
    </a>
  );
}

const detailOf = (keyId: string, { detail = "" }: AuditLine, name: Name) =>
  /^sub_\w+$/.test(detail) ? subscriptionLink(keyId, detail, name) : detail;

interface AuditProps {
  readonly keyId: string;
  readonly query: Readonly<Record<string, string>>;
}

export const Audit = ({ keyId, query: { action, cursor } }: AuditProps) => {
  const [erasing, setErasing] = useState(false);
  const { data, error, again } = useLoad(
    (signal) => {
      const page = { action, cursor, limit: "50" };
      return ask<readonly AuditLine[]>("GET", path("/api-keys/{}/audit", [keyId], page), { signal });
    },
    [keyId, action, cursor],
  );
  const ids = (data?.data ?? []).flatMap(({ target, detail = "" }) => [target, detail]);
  const name = useNames(
    keyId,
    ids.filter((id) => id.startsWith("sub_")),
  );
  return (
    <PageFrame
      title="Audit"
      kicker={<code>{keyId}</code>}
      actions={[
        <TimeSwitch />,
        may("erase") && (
          <button type="button" onClick={() => setErasing(true)}>
            Erase the key…
          </button>
        ),
      ]}
    >
      {erasing && <EraseKey keyId={keyId} begun={again} close={() => setErasing(false)} />}
      <div class="filters" role="search" aria-label="Filters">
        <Select
          label="What"
          value={action ?? ""}
          options={KINDS}
          change={(kind) => refine({ cursor: undefined, action: kind })}
        />
      </div>
      {problem(error, again) ?? (data === undefined && skeleton())}
      {data !== undefined &&
        data.data.length === 0 &&
        data.meta.nextCursor === undefined &&
        empty(
          action === undefined ? "Nothing was changed yet" : "Nothing of this kind",
          "Each change of a subscription and each replay is listed here. It is stored in the same commit as the change itself.",
        )}
      {data !== undefined &&
        data.data.length > 0 &&
        table(
          "Audit",
          ["What", "Of", "By", "From", "When"],
          data.data.map((line, i) => ({
            key: `${line.at} ${i}`,
            cells: [
              <span>
                <span class="row">
                  {wordsOf(line.action)}
                  {line.result === "refused" && <span class="badge is-failed">refused</span>}
                </span>
                {line.detail !== undefined && <small>{detailOf(keyId, line, name)}</small>}
              </span>,
              targetOf(keyId, line, name),
              line.by,
              line.address ?? "–",
              <When at={line.at} />,
            ],
          })),
        )}
      {data !== undefined && data.data.length < 50 && lookedBack(data.meta.searchedTo, data.data.length)}
      {data !== undefined && pager("the audit", cursor, data.meta.nextCursor)}
    </PageFrame>
  );
};
