/** Shows who changed what on a key, newest first, and has the button that erases it. */
import { useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { el, part } from "./dom.ts";
import { EraseKey } from "./erase-key.ts";
import { badge, empty, PageFrame, problem, skeleton, useLoad, When } from "./elements.ts";
import type { AuditLine } from "./shapes.ts";
import { pager, table } from "./data-table.ts";

export const Audit = part(({ keyId }: { readonly keyId: string }) => {
  const [cursor, setCursor] = useState<string | undefined>(undefined);
  const [erasing, setErasing] = useState(false);
  const { data, error, again } = useLoad(
    (signal) =>
      ask<readonly AuditLine[]>("GET", path("/api-keys/{}/audit", [keyId], { cursor, limit: "50" }), { signal }),
    [keyId, cursor],
  );
  return PageFrame({
    title: "Audit",
    kicker: el.code(null, keyId),
    actions: el.button({ type: "button", onClick: () => setErasing(true) }, "Erase the key…"),
    children: [
      erasing && EraseKey({ keyId, begun: again, close: () => setErasing(false) }),
      problem(error),
      data === undefined && error === undefined && skeleton(),
      data !== undefined &&
        data.data.length === 0 &&
        empty(
          "Nothing was changed yet",
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
                line.action.replaceAll(".", " ").replaceAll("_", " "),
                line.result === "refused" && badge("failed", "refused"),
                line.detail !== undefined && el.small(null, line.detail),
              ),
              el.code({ class: "id" }, line.target),
              line.by,
              line.address ?? "–",
              When({ at: line.at }),
            ],
          })),
        ),
      data !== undefined &&
        pager({
          what: "the audit",
          first: cursor === undefined,
          next: data.meta.nextCursor,
          toFirst: () => setCursor(undefined),
          toNext: setCursor,
        }),
    ],
  });
});
