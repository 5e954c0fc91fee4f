/**
 * Mints and checks portal links: signed tokens that open the portal of one key for some time. They have a type and an
 * audience of their own, so no auth takes one for an access token.
 *
 * A link is valid while three things are as they were when it was minted: the signing key, the key's row here, which a
 * revocation and the erasure of the key delete, and the account that minted it. No list of links is kept.
 */
import { createPublicKey, type KeyObject } from "node:crypto";
import { jwtVerify } from "jose/jwt/verify";
import type { Actor } from "../../model/audit.ts";
import { type Access, ACCESS_CLAIM, accessOf, bearerToken, OWN_ISSUER } from "../../model/token.ts";
import { StorageError } from "../../model/errors.ts";
import { randomId } from "../../model/ids.ts";
import { PORTAL } from "../../model/schema.ts";
import { isKeyId } from "../../model/names.ts";
import type { Auth, Principal, Refusal } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Keys } from "../../ports/plugin.ts";
import type { Change, Storage } from "../../ports/storage.ts";
import { auditChange } from "../../records/audit-trail.ts";
import { transact } from "../../records/transaction.ts";

/** They keep these tokens apart from all others. */
export const PORTAL_TYP = "relay-portal+jwt";
export const PORTAL_AUDIENCE = "relaybox:portal";

interface PortalLink {
  readonly id: string;
  readonly token: string;
  /** Epoch ms. */
  readonly expiresAt: number;
}

interface Wanted {
  readonly keyId: string;
  readonly access: Access;
  readonly ttlMs: number;
  readonly actor: Actor;
}

interface PortalDeps {
  readonly storage: Pick<Storage, "getItem" | "commit">;
  readonly clock: Pick<Clock, "now">;
  readonly keys: Pick<Keys, "seal" | "open" | "signToken" | "publicJwk">;
  readonly auth: Pick<Auth, "standing">;
}

export const LONGEST_LINK_MS = 86_400_000;
const TOLERANCE_S = 30;
/** How far the clock of the node that minted it may be ahead, ms. */
const AHEAD_MS = 300_000;
/** A longer header is none of ours. */
const LONGEST_HEADER = 512;
const LONGEST_TOKEN = 8_192;
const LINK_ID = /^lnk_[0-9a-z]{26}$/;

const refuse = (refused: string): Refusal => ({ refused });
const sealedFor = (id: string): string => `portal link:${id}`;

export class PortalLinks {
  readonly #deps: PortalDeps;
  readonly #jwk: ReturnType<Keys["publicJwk"]>;
  readonly #key: KeyObject;

  constructor(deps: PortalDeps) {
    this.#deps = deps;
    this.#jwk = deps.keys.publicJwk();
    this.#key = createPublicKey({ key: { ...this.#jwk }, format: "jwk" });
  }

  /** Stores who minted it, then resolves to the link. @throws Problem, StorageError */
  async mint({ keyId, access, ttlMs, actor }: Wanted): Promise<PortalLink> {
    const { storage, clock, keys } = this.#deps;
    const id = randomId("lnk");
    const minter = await this.#sealMinter(id, actor);
    const detail = `${access}, for ${Math.floor(ttlMs / 1_000)} s`;
    const life = await transact(storage, async (tx) => {
      const key = PORTAL.key({ keyId });
      const known = await tx.text(key);
      const line = { action: "portal_link.created", target: id, detail } as const;
      const same: Change =
        known === undefined ? PORTAL.put({ keyId }, randomId("life"), null) : { op: "check", key, if: known };
      tx.add(same, auditChange(keyId, actor, clock, line));
      return same.op === "put" ? same.value : known;
    });
    const iat = Math.floor(clock.now() / 1_000);
    const exp = iat + Math.floor(ttlMs / 1_000);
    const claims = {
      iss: OWN_ISSUER,
      aud: PORTAL_AUDIENCE,
      sub: `portal:${id}`,
      jti: id,
      iat,
      exp,
      api_keys: [keyId],
      [ACCESS_CLAIM]: access,
      life,
      ...(minter !== undefined && { minter }),
    };
    return { id, token: await keys.signToken(claims, PORTAL_TYP), expiresAt: exp * 1_000 };
  }

  /** Ends all links of a key, on every node. */
  async revoke(keyId: string, actor: Actor): Promise<void> {
    const { storage, clock } = this.#deps;
    await transact(storage, async (tx) => {
      if ((await tx.text(PORTAL.key({ keyId }))) !== undefined) tx.delete(PORTAL, { keyId });
      tx.add(auditChange(keyId, actor, clock, { action: "portal_links.revoked", target: keyId }));
    });
  }

  /** Returns whose token it is; undefined for one that is no portal link's. Rejects with StorageError alone. */
  judge(authorization: string | undefined): Promise<Principal | Refusal> | undefined {
    const token = bearerToken(authorization);
    if (token === undefined || token.length > LONGEST_TOKEN || !isPortalToken(token)) return undefined;
    return this.#verified(token);
  }

  async #verified(token: string): Promise<Principal | Refusal> {
    const { clock, storage } = this.#deps;
    const checked = await jwtVerify(token, this.#key, {
      algorithms: ["EdDSA"],
      typ: PORTAL_TYP,
      issuer: OWN_ISSUER,
      audience: PORTAL_AUDIENCE,
      currentDate: new Date(clock.now()),
      clockTolerance: TOLERANCE_S,
      requiredClaims: ["sub", "jti", "exp", "iat"],
    }).catch(() => undefined);
    if (checked === undefined || checked.protectedHeader.kid !== this.#jwk["kid"])
      return refuse("no link of ours, or expired");
    const { jti: id = "", iat = 0, exp = 0, api_keys: owned, life, minter } = checked.payload;
    // Its end bounds its age.
    if ((exp - iat) * 1_000 > LONGEST_LINK_MS) return refuse("it lives longer than a link may");
    if (iat * 1_000 > clock.now() + AHEAD_MS) return refuse("the clock of the node that made it is too far ahead");
    const [keyId] = Array.isArray(owned) && owned.length === 1 ? (owned as unknown[]) : [];
    if (typeof keyId !== "string" || !isKeyId(keyId) || !LINK_ID.test(id)) return refuse("it names no key");
    if ((await storage.getItem(PORTAL.key({ keyId }))) !== (life ?? "")) return refuse("it was revoked");
    if (!(await this.#minterStands(id, minter))) return refuse("the account that made it has changed");
    return {
      sub: `portal:${id}`,
      keys: [keyId],
      access: accessOf(checked.payload[ACCESS_CLAIM]),
      amr: [],
      expiresAt: exp * 1_000,
      portal: id,
    };
  }

  /** Returns the minter as the token carries it: the link's holder can read nothing of it. */
  async #sealMinter(id: string, { sub }: Actor): Promise<string | undefined> {
    const { auth, keys } = this.#deps;
    const standing = await auth.standing?.(sub);
    return standing === undefined ? undefined : keys.seal(JSON.stringify([sub, standing]), sealedFor(id));
  }

  /**
   * Returns true while the account that minted the link is as it was then. A minter without an account stays as it is.
   * @throws StorageError when that cannot be read now: the link itself is neither good nor bad
   */
  async #minterStands(id: string, minter: unknown): Promise<boolean> {
    if (minter === undefined) return true;
    if (typeof minter !== "string") return false;
    const { auth, keys } = this.#deps;
    try {
      const [sub, standing] = JSON.parse(keys.open(minter, sealedFor(id))) as [string, string];
      return (await auth.standing?.(sub)) === standing;
    } catch (error) {
      if (error instanceof StorageError) throw error;
      return false;
    }
  }
}

/** Returns true where the header says that it is one. Nothing is proven by that. */
function isPortalToken(token: string): boolean {
  const end = token.indexOf(".");
  if (end < 0 || end > LONGEST_HEADER) return false;
  try {
    const header = JSON.parse(Buffer.from(token.slice(0, end), "base64url").toString()) as { readonly typ?: unknown };
    return header?.typ === PORTAL_TYP;
  } catch {
    return false;
  }
}

/** An auth that also takes portal links, for the routes of the server itself: those of the plug-in never see one as valid. */
export const withPortal = (auth: Auth, links: Pick<PortalLinks, "judge">): Auth => ({
  ...auth,
  authenticate: (request) => links.judge(request.header("authorization")) ?? auth.authenticate(request),
});
