/** Shows who changed what on a key, newest first, and has the button that erases it. The filter is in the address. */
import { useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { el, part } from "./dom.ts";
import { EraseKey } from "./erase.ts";
import { useNames } from "./known-names.ts";
import { refine, to } from "./route.ts";
import { empty, PageFrame, problem, skeleton, TimeSwitch, When } from "./elements.ts";
import { useLoad } from "./load.ts";
import type { AuditLine } from "./shapes.ts";
import { pager, table } from "./data-table.ts";
import { may } from "./may.ts";
import { Select } from "./fields.ts";
import { lookedBack } from "./search.ts";

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
  el.a({ href: to(["k", keyId, "subscriptions", id]) }, name(id));

/** Leads to what was changed, unless that is gone. */
function targetOf(keyId: string, { action, target }: AuditLine, name: Name) {
  if (target === "") return "–";
  if (target.startsWith("sub_"))
    return action === "subscription.deleted" ? el.code({ class: "id" }, target) : subscriptionLink(keyId, target, name);
  const gone = action === "event.erased" || !/^(?:event|delivery)\./.test(action);
  return gone
    ? el.code({ class: "id" }, target)
    : el.a({ href: to(["k", keyId, "events", target]), class: "id" }, target);
}

const detailOf = (keyId: string, { detail = "" }: AuditLine, name: Name) =>
  /^sub_\w+$/.test(detail) ? subscriptionLink(keyId, detail, name) : detail;

interface AuditProps {
  readonly keyId: string;
  readonly query: Readonly<Record<string, string>>;
}

export const Audit = part(({ keyId, query: { action, cursor } }: AuditProps) => {
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
  return PageFrame({
    title: "Audit",
    kicker: el.code(null, keyId),
    actions: [
      TimeSwitch({}),
      may("erase") && el.button({ type: "button", onClick: () => setErasing(true) }, "Erase the key…"),
    ],
    children: [
      erasing && EraseKey({ keyId, begun: again, close: () => setErasing(false) }),
      el.div(
        { class: "filters", role: "search", "aria-label": "Filters" },
        Select({
          label: "What",
          value: action ?? "",
          options: KINDS,
          change: (kind) => refine({ cursor: undefined, action: kind }),
        }),
      ),
      problem(error, again) ?? (data === undefined && skeleton()),
      data !== undefined &&
        data.data.length === 0 &&
        data.meta.nextCursor === undefined &&
        empty(
          action === undefined ? "Nothing was changed yet" : "Nothing of this kind",
          "Each change of a subscription and each replay is listed here. It is stored in the same commit as the change itself.",
        ),
      data !== undefined &&
        data.data.length > 0 &&
        table(
          "Audit",
          ["What", "Of", "By", "From", "When"],
          data.data.map((line, i) => ({
            key: `${line.at} ${i}`,
            cells: [
              el.span(
                null,
                el.span(
                  { class: "row" },
                  wordsOf(line.action),
                  line.result === "refused" && el.span({ class: "badge is-failed" }, "refused"),
                ),
                line.detail !== undefined && el.small(null, detailOf(keyId, line, name)),
              ),
              targetOf(keyId, line, name),
              line.by,
              line.address ?? "–",
              When({ at: line.at }),
            ],
          })),
        ),
      data !== undefined && data.data.length < 50 && lookedBack(data.meta.searchedTo, data.data.length),
      data !== undefined && pager("the audit", cursor, data.meta.nextCursor),
    ],
  });
});
