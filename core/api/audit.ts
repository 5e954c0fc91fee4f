/** The audit trail of a key, newest first. */
import { z } from "zod";
import type { AuditLine } from "../flow/audit.ts";
import { auditKey, auditOf } from "../model/keys.ts";
import { isoTime } from "../model/time.ts";
import type { Storage } from "../ports/storage.ts";
import type { Cursors } from "./cursor.ts";
import { operation } from "./endpoint.ts";
import type { AnyOperation } from "./endpoint.ts";
import { DEFAULT_LIMIT, pageQuery } from "./schemas.ts";
import { auditLine } from "./shapes.ts";

export function auditOperations(deps: {
  readonly storage: Pick<Storage, "range">;
  readonly cursors: Cursors;
}): readonly AnyOperation[] {
  const { storage, cursors } = deps;
  return [
    operation({
      method: "GET",
      path: "/api-keys/{keyId}/audit",
      summary: "List who changed what, newest first",
      tag: "Audit",
      query: pageQuery,
      reply: { status: 200, data: z.array(auditLine), paged: true },
      async handle({ keyId, query: { cursor, limit = DEFAULT_LIMIT } }) {
        const list = `audit:${keyId}`;
        const place = cursors.read(cursor, list);
        const after = place === undefined ? undefined : auditKey(keyId, place);
        const rows = await storage.range(auditOf(keyId), { after, limit: limit + 1, reverse: true });
        const page = rows.slice(0, limit);
        const last = page.at(-1)?.key ?? "";
        const next = rows.length > limit ? last.slice(last.lastIndexOf(":") + 1) : undefined;
        const data = page.map(({ value }) => {
          const line = JSON.parse(value) as AuditLine;
          return { ...line, at: isoTime(line.at) };
        });
        return { data, nextCursor: cursors.write(next, list) };
      },
    }),
  ];
}
