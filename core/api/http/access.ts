/**
 * Refuses routes that change something to callers who may only read, and what is no customer's business to the holder of a
 * portal link: in one place, so that a new route cannot forget it.
 */
import { Problem } from "../../model/problem.ts";
import type { Principal } from "../../ports/auth.ts";
import type { Access } from "../../model/token.ts";

/** An operation or a route, which may name the right that its caller needs. */
export interface Guarded {
  readonly method: string;
  readonly access?: Access | undefined;
}

/** Returns what the caller of a route must be allowed to do: the method says it, unless the route says otherwise. */
export const neededAccess = ({ method, access }: Guarded): Access => access ?? (method === "GET" ? "read" : "manage");

/**
 * @param access what the caller may do; absent: everything
 * @throws Problem FORBIDDEN
 */
export function checkAccess(route: Guarded, access: Access | undefined): void {
  if (access === undefined || access === "manage" || neededAccess(route) === "read") return;
  throw new Problem("FORBIDDEN", "You may look at this, and not change it. Ask an operator for more access.");
}

/** @throws Problem FORBIDDEN for the holder of a portal link, unless the operation is open to such */
export function checkPortal(operation: { readonly portal?: true }, { portal }: Pick<Principal, "portal">): void {
  if (portal === undefined || operation.portal === true) return;
  throw new Problem("FORBIDDEN", "A portal link does not open this. Ask the operator of the relay.");
}
