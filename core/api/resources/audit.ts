/** The audit trail of a key, newest first. Tokens that own every key also see the entries of the relay itself. */
import { z } from "zod";
import type { AuditLine } from "../../model/audit.ts";
import { auditKey, auditOf, WHOLE_RELAY } from "../../model/keys.ts";
import { isoTime } from "../../model/time.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Cursors } from "../http/cursor.ts";
import { operation } from "../http/operation.ts";
import type { AnyOperation } from "../http/operation.ts";
import { DEFAULT_LIMIT, pageQuery } from "./schemas.ts";
import { auditLine } from "./shapes.ts";

interface Row {
  readonly ordinal: string;
  readonly value: string;
}

export function auditOperations(deps: {
  readonly storage: Pick<Storage, "range">;
  readonly cursors: Cursors;
}): readonly AnyOperation[] {
  const { storage, cursors } = deps;
  return [
    operation({
      method: "GET",
      path: "/api-keys/{keyId}/audit",
      summary: "List who changed what, newest first; with what concerns the whole relay, for tokens that own every key",
      tag: "Audit",
      query: pageQuery,
      reply: { status: 200, data: z.array(auditLine), paged: true },
      async handle({ keyId, principal, query: { cursor, limit = DEFAULT_LIMIT } }) {
        const whole = principal.keys === "*";
        const list = `audit:${keyId}:${whole}`;
        const place = cursors.read(cursor, list);
        const read = async (shelf: string): Promise<readonly Row[]> => {
          const after = place === undefined ? undefined : auditKey(shelf, place);
          const found = await storage.range(auditOf(shelf), { after, limit: limit + 1, reverse: true });
          return found.map(({ key, value }) => ({ ordinal: key.slice(key.lastIndexOf(":") + 1), value }));
        };
        const shelves = await Promise.all((whole ? [keyId, WHOLE_RELAY] : [keyId]).map(read));
        const rows = shelves.flat().toSorted((a, b) => (a.ordinal < b.ordinal ? 1 : -1));
        const page = rows.slice(0, limit);
        const next = rows.length > limit ? page.at(-1)?.ordinal : undefined;
        const data = page.map(({ value }) => {
          const line = JSON.parse(value) as AuditLine;
          return { ...line, at: isoTime(line.at) };
        });
        return { data, nextCursor: cursors.write(next, list) };
      },
    }),
  ];
}
