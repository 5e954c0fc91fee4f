/** The audit trail of a key, newest first. Tokens that own every key also see the entries of the relay itself. */
import { z } from "zod";
import { AUDIT_ACTIONS, type AuditLine } from "../../model/audit.ts";
import { ordinalTime } from "../../model/ids.ts";
import { DAMAGED } from "../../model/kind.ts";
import { AUDIT, WHOLE_RELAY, ordinalOf } from "../../model/schema.ts";
import { isoTime } from "../../lib/time.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import type { ResourceDeps } from "./deps.ts";
import { note, time } from "./fields.ts";
import { DEFAULT_LIMIT, pageQuery } from "./lists.ts";

const operation = operationsOf("Audit");

const UNREADABLE = "damaged";

/** `subscription.updated`, and its kind, `subscription`. An entry whose record is damaged has an action of its own. */
const actionsAndKinds = new Set(
  AUDIT_ACTIONS.flatMap((action) => [action, action.replace(/\..*/, "")]).concat(UNREADABLE),
);

const text = z.string().min(1).max(256);
const auditQuery = pageQuery.extend({
  action: note(
    z.enum([...actionsAndKinds].sort()).optional(),
    "Entries with this action, `subscription.updated`, or with all of its kind: `subscription`.",
  ),
  target: note(text.optional(), "Entries about this id, such as an event or a subscription."),
  by: note(text.optional(), "Entries of this author: the `sub` of a token, or `relay`."),
});
export const auditLine = z
  .strictObject({
    at: time,
    by: z.string(),
    address: z.string().optional(),
    requestId: z.string().optional(),
    action: z.string(),
    target: z.string(),
    result: z.enum(["done", "refused"]),
    detail: z.string().optional(),
  })
  .meta({ id: "AuditLine" });

/** Entries that one page of a search looks at, at most. */
const LOOKS = 1_000;

type DamagedLine = Omit<AuditLine, "action"> & { readonly action: typeof UNREADABLE };

interface Row {
  readonly ordinal: string;
  readonly line: AuditLine | DamagedLine;
}

type Filter = Omit<z.output<typeof auditQuery>, "cursor" | "limit">;

/** Of a damaged line only its time is known. It stays in the list, since a trail must not have silent gaps. */
function lineOf(key: string, value: string): AuditLine | DamagedLine {
  const line = AUDIT.read(value);
  if (line !== DAMAGED) return line;
  const at = ordinalTime(ordinalOf(key));
  return { at, by: "unknown", action: UNREADABLE, target: "unknown", result: "done", detail: "its record is damaged" };
}

const matches = ({ action, target, by }: Filter, line: Row["line"]): boolean =>
  (action === undefined || line.action === action || line.action.startsWith(`${action}.`)) &&
  (target === undefined || line.target === target || line.detail === target) &&
  (by === undefined || line.by === by);

export const auditOperations = ({ storage, cursors }: ResourceDeps): readonly AnyOperation[] => [
  operation("GET /api-keys/{keyId}/audit", {
    id: "listAuditLines",
    summary: "List who changed what, newest first; with what concerns the whole relay, for tokens that own every key",
    query: auditQuery,
    reply: { status: 200, data: z.array(auditLine), paged: true },
    async handle({ keyId, principal, query: { cursor, limit = DEFAULT_LIMIT, ...filter } }) {
      const whole = principal.keys === "*";
      const narrowed = Object.keys(filter).length > 0;
      const list = `audit:${keyId}:${whole}${narrowed ? `:${JSON.stringify(filter)}` : ""}`;
      const place = cursors.read(cursor, list);
      const most = narrowed ? LOOKS : limit;
      const read = async (trail: string): Promise<readonly Row[]> => {
        const after = place === undefined ? undefined : AUDIT.key({ keyId: trail, ordinal: place });
        const found = await storage.range(AUDIT.under({ keyId: trail }), { after, limit: most + 1, reverse: true });
        return found.map(({ key, value }) => ({ ordinal: ordinalOf(key), line: lineOf(key, value) }));
      };
      const trails = await Promise.all((whole ? [keyId, WHOLE_RELAY] : [keyId]).map(read));
      const rows = trails.flat().toSorted((a, b) => (a.ordinal < b.ordinal ? 1 : -1));
      const looked = rows.slice(0, most);
      const page = looked.filter(({ line }) => matches(filter, line)).slice(0, limit);
      const last = (page.length === limit ? page : looked).at(-1);
      const next = rows.at(-1) === last ? undefined : last?.ordinal;
      return {
        data: page.map(({ line }) => ({ ...line, at: isoTime(line.at) })),
        nextCursor: cursors.write(next, list),
        searchedTo: narrowed && next !== undefined ? ordinalTime(next) : undefined,
      };
    },
  }),
];
