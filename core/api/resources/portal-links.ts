/** Makes links to the portal of a key, for the customer who owns the key, and ends them. */
import { z } from "zod";
import { isoTime } from "../../lib/time.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import { LONGEST_LINK_MS } from "../portal/links.ts";
import type { ResourceDeps } from "./deps.ts";
import { note } from "./fields.ts";

const operation = operationsOf("Portal");

const DEFAULT_S = 3_600;
const path = "/api-keys/{keyId}/portal-links";

const body = z
  .strictObject({
    access: note(z.enum(["manage", "read"]), "`read`: the holder looks, and changes nothing."),
    expiresInSeconds: note(
      z
        .int()
        .min(60)
        .max(LONGEST_LINK_MS / 1_000)
        .default(DEFAULT_S),
      "How long the link opens the portal.",
    ),
  })
  .meta({ id: "PortalLinkRequest" });

const made = z
  .strictObject({
    id: note(z.string(), "Names the link in the audit trail, where its holder is `portal:` and this id."),
    url: note(
      z.string(),
      "Holds the token behind `#`. Everybody who has the link may use it until it expires. Without `portal.url` it is relative to the address of the relay, unless that was asked by its own address.",
    ),
    expiresAt: z.iso.datetime(),
  })
  .meta({ id: "PortalLink" });

export function portalOperations({ portal }: ResourceDeps): readonly AnyOperation[] {
  if (portal === undefined) return [];
  const { links, pageUrl } = portal;
  return [
    operation(`POST ${path}`, {
      id: "createPortalLink",
      summary: "Make a link that opens the portal of this key, and nothing else, until it expires",
      body,
      reply: { status: 201, data: made },
      problems: ["CONFLICT"],
      async handle({ keyId, body: { access, expiresInSeconds }, actor, call }) {
        const page = pageUrl(call);
        const { id, token, expiresAt } = await links.mint({ keyId, access, ttlMs: expiresInSeconds * 1_000, actor });
        return { data: { id, url: `${page}#link=${token}`, expiresAt: isoTime(expiresAt) } };
      },
    }),
    operation(`DELETE ${path}`, {
      id: "revokePortalLinks",
      summary: "End all links to the portal of this key",
      reply: { status: 204 },
      problems: ["CONFLICT"],
      handle: ({ keyId, actor }) => links.revoke(keyId, actor),
    }),
  ];
}
