/**
 * The wall around an auth: when it fails or hangs, the request is refused. A fault of the storage passes through: it says
 * nothing of the token, and a client that takes it for a refusal would log its user out.
 */
import { StorageError } from "../../model/errors.ts";
import type { Auth, Principal, Refusal } from "../../ports/auth.ts";
import { checkPort, wallOf, type Walls } from "./wall.ts";
import type { PluginName } from "./incidents.ts";
import { containRoutes } from "./routes.ts";

/** Longest wait for the judgement of a token. */
const AUTHENTICATE_MS = 10_000;

/** @throws StartError 78 when it is no auth */
export function containAuth(auth: Auth, plugin: PluginName, walls: Walls): Auth {
  checkPort(auth, plugin, ["authenticate", "ready"]);
  const wall = wallOf(plugin, walls);
  const { inside, note, deadlines } = wall;

  const refusal = (error: unknown): Refusal => {
    note("authenticate", error);
    return { refused: "the auth plug-in failed" };
  };

  return {
    ...(auth.routes && { routes: containRoutes(auth.routes, wall) }),
    async authenticate(request) {
      try {
        const found = await deadlines.bound(
          inside(() => auth.authenticate(request)),
          {
            ms: AUTHENTICATE_MS,
            late: () => refusal(new Error(`no answer within ${AUTHENTICATE_MS} ms`)),
          },
        );
        return isAnswer(found) ? found : refusal(new Error("it answered with no principal and no refusal"));
      } catch (error) {
        if (error instanceof StorageError) throw error;
        return refusal(error);
      }
    },
    ready() {
      try {
        return inside(() => auth.ready()) === true;
      } catch (error) {
        note("ready", error);
        return false;
      }
    },
    ...(auth.firstRun && { firstRun: async () => inside(() => auth.firstRun?.() ?? Promise.resolve(false)) }),
    ...(auth.reseal && { reseal: async () => inside(() => auth.reseal?.() ?? Promise.resolve(0)) }),
    ...(auth.standing && {
      standing: async (sub) =>
        deadlines.bound<string | undefined>(
          inside(() => auth.standing?.(sub)),
          {
            ms: AUTHENTICATE_MS,
            late: () => {
              throw new Error(`no answer within ${AUTHENTICATE_MS} ms`);
            },
          },
        ),
    }),
    dispose: async () => {
      await inside(() => auth.dispose?.());
    },
  };
}

/** Whether it is a refusal, or a principal with everything that the checks read. */
function isAnswer(found: unknown): found is Principal | Refusal {
  if (typeof found !== "object" || found === null) return false;
  if ("refused" in found) return true;
  const { sub, keys, amr, expiresAt } = found as Partial<Principal>;
  const owned = keys === "*" || (Array.isArray(keys) && keys.every((key) => typeof key === "string"));
  return typeof sub === "string" && sub !== "" && owned && Array.isArray(amr) && typeof expiresAt === "number";
}
