/** Makes the signing secrets of subscriptions, and rotates them. */
import { randomBytes } from "node:crypto";
import { OVERLAP } from "../model/schema.ts";
import { overlapNoticeAt } from "../model/notice.ts";
import { Problem } from "../model/problem.ts";
import { sealedFor } from "../model/credentials.ts";
import type { Place } from "./credentials.ts";
import { secretAad, type SealedSecret, type Subscription } from "../model/subscription.ts";
import type { Clock } from "../ports/clock.ts";
import type { Keys } from "../ports/plugin.ts";
import type { Change } from "../ports/storage.ts";
import type { Actor, AuditLine } from "../records/audit-trail.ts";
import type { Revising } from "./revise.ts";

/** Returns the line of the audit trail for the commit of a change. */
export type AuditOf = (keyId: string, actor: Actor, line: Pick<AuditLine, "action" | "target" | "detail">) => Change;

interface SecretDeps {
  readonly keys: Pick<Keys, "seal">;
  readonly clock: Pick<Clock, "now">;
}

interface RotationDeps extends SecretDeps {
  readonly revise: Revising["revise"];
  /** Resolves when a subscription's requests in flight, on every node, have ended, within a bound. */
  readonly drain?: (subscriptionId: string) => Promise<void>;
  readonly audit: AuditOf;
}

export interface WithSecret {
  readonly subscription: Subscription;
  /** In clear text: shown once, stored nowhere. */
  readonly secret: string;
}

interface NewSecret {
  readonly plain: string;
  readonly stored: SealedSecret;
}

/**
 * Makes a random secret, or takes the given one, and seals it for this subscription and version.
 * @param given it has been judged
 */
export function rotatedSecret(
  { keys, clock }: SecretDeps,
  { keyId, id, url }: Place,
  version: number,
  given?: string | null,
): NewSecret {
  const plain = given ?? `whsec_${randomBytes(32).toString("base64")}`;
  return {
    plain,
    stored: {
      version,
      sealed: keys.seal(plain, sealedFor(secretAad(keyId, id, version), url)),
      createdAt: clock.now(),
    },
  };
}

/** The row by which the end of the overlap is reported some time before. */
const noticeOfOverlap = (keyId: string, id: string, at: number, overlapMs: number): Change =>
  OVERLAP.put({ at: overlapNoticeAt(at, overlapMs), keyId, subscriptionId: id }, String(at + overlapMs));

export function createRotation(
  deps: RotationDeps,
): (keyId: string, id: string, overlapMs: number, actor: Actor) => Promise<WithSecret> {
  const { clock, revise, audit } = deps;
  return async (keyId, id, overlapMs, actor) => {
    let firstVersion: number | undefined;
    let plain = "";
    const { next } = await revise(keyId, id, (now) => {
      const [old] = now.secrets;
      const version = old?.version ?? 0;
      firstVersion ??= version;
      if (version !== firstVersion)
        throw new Problem(
          "CONFLICT",
          "Another rotation came first, and its secret is the newest now. Read the subscription, then rotate again if needed.",
        );
      const made = rotatedSecret(deps, now, version + 1);
      plain = made.plain;
      const at = clock.now();
      const secrets = old && overlapMs > 0 ? [made.stored, { ...old, expiresAt: at + overlapMs }] : [made.stored];
      const more = [audit(keyId, actor, { action: "secret.rotated", target: id, detail: `overlap ${overlapMs} ms` })];
      if (secrets.length > 1) more.push(noticeOfOverlap(keyId, id, at, overlapMs));
      return { next: { ...now, secrets, updatedAt: at }, more };
    });
    // From the answer on, everything that arrives is signed with the new secret too: the receiver may switch at once.
    await deps.drain?.(id);
    return { subscription: next, secret: plain };
  };
}
