/**
 * The wall around an auth: when it fails or hangs, the request is refused. A fault of the storage passes through: it says
 * nothing of the token, and a client that takes it for a refusal would log its user out.
 */
import { StorageError } from "../../model/errors.ts";
import type { Auth, Principal, Refusal } from "../../ports/auth.ts";
import { checkPort, wallOf, type Walls } from "./wall.ts";
import type { PluginName } from "./incidents.ts";
import { containRoutes } from "./routes.ts";
import { thrownError } from "./thrown.ts";

/** Longest wait for the judgement of a token. */
const AUTHENTICATE_MS = 10_000;
/** The name of a caller is a key of the limiter and stands in the audit trail: a longer one is none. */
const LONGEST_SUB = 1_024;

/** @throws StartError 78 when it is no auth */
export function containAuth(auth: Auth, plugin: PluginName, walls: Walls): Auth {
  checkPort(auth, plugin, ["authenticate", "ready"]);
  const wall = wallOf(plugin, walls);
  const { inside, note, deadlines } = wall;

  const refusal = (error: unknown): Refusal => {
    note("authenticate", error);
    return { refused: "the auth plug-in failed" };
  };

  /** What is thrown further: the relay's storage says so itself, anything else is the plug-in's. */
  function failed(call: string, error: unknown): unknown {
    if (error instanceof StorageError) return error;
    note(call, error);
    return thrownError(error);
  }

  const asked = <T>(call: string, work: () => Promise<T>): Promise<T> =>
    deadlines.bound<T>(inside(work), {
      ms: AUTHENTICATE_MS,
      late: () => {
        throw failed(call, new Error(`no answer within ${AUTHENTICATE_MS} ms`));
      },
      failed: (error) => failed(call, error),
    });

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
        return answerOf(found);
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
    ...(auth.firstRun && {
      firstRun: async () => (await asked("firstRun", async () => auth.firstRun?.())) === true,
    }),
    ...(auth.reseal && { reseal: async () => inside(() => auth.reseal?.() ?? Promise.resolve(0)) }),
    ...(auth.standing && {
      async standing(sub) {
        const standing = await asked("standing", async () => auth.standing?.(sub));
        if (standing === undefined || typeof standing === "string") return standing;
        throw failed("standing", new Error("its answer is no text"));
      },
    }),
    dispose: async () => {
      await inside(() => auth.dispose?.());
    },
  };
}

/**
 * Reads an answer once, into an object of the relay's own: what is checked here is what is used later, whatever the plug-in
 * does with its object meanwhile.
 * @throws Error when it is neither a refusal nor a principal, or one of another shape: no right is guessed
 */
function answerOf(found: unknown): Principal | Refusal {
  if (typeof found !== "object" || found === null) throw new Error(NEITHER);
  if ("refused" in found) return { refused: String(found.refused) };
  const { sub, keys, access, amr, acr, authTime, expiresAt, sessionId, portal } = found as Partial<Principal>;
  const owned = keys === "*" ? keys : textsOf(keys);
  const factors = textsOf(amr);
  if (typeof sub !== "string" || sub === "" || owned === undefined || factors === undefined) throw new Error(NEITHER);
  if (typeof expiresAt !== "number") throw new Error(NEITHER);
  if (sub.length > LONGEST_SUB) throw new Error(`its principal has a sub of more than ${LONGEST_SUB} characters`);
  if (Number.isNaN(expiresAt)) throw wrong("expiresAt");
  if (access !== undefined && access !== "read" && access !== "manage") throw wrong("access");
  if (authTime !== undefined && !Number.isFinite(authTime)) throw wrong("authTime");
  return {
    sub,
    keys: owned,
    amr: factors,
    expiresAt,
    ...(access !== undefined && { access }),
    ...(authTime !== undefined && { authTime }),
    ...texts({ acr, sessionId, portal }),
  };
}

const NEITHER = "it answered with no principal and no refusal";
const wrong = (field: string): Error => new Error(`its principal has a wrong ${field}`);

/** A copy of a list of texts; undefined for anything else. */
function textsOf(list: unknown): readonly string[] | undefined {
  if (!Array.isArray(list)) return undefined;
  const copy = Array.from(list as readonly unknown[]);
  return copy.every((one) => typeof one === "string") ? copy : undefined;
}

/** Those that are set. @throws Error when one is no text */
function texts<T extends Record<string, string | undefined>>(fields: T): Partial<T> {
  for (const [name, value] of Object.entries(fields))
    if (value !== undefined && typeof value !== "string") throw wrong(name);
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
}
