/** Manages the session: set up, log in, renew, step up, log out. No script sees the refresh cookie. */
import { asked, ask, ApiRefusal, read, refusalOf, send, spent, waitOut } from "./api.ts";
import { dropBegun } from "./begun.ts";
import { cell } from "./cell.ts";
import { publish } from "./live.ts";
import { hasAccounts, isFirstRun, isPortal } from "./page-facts.ts";
import { openAt, stay } from "./route.ts";
import { holderOf, readToken, token } from "./token.ts";

type PageSession =
  | { readonly kind: "starting" }
  | { readonly kind: "setup" }
  /** By name and password, or by a pasted token where the relay has no accounts. */
  | { readonly kind: "login"; readonly note?: string | undefined }
  /** The portal without a link, or after it. */
  | { readonly kind: "closed"; readonly note: string }
  /** `ended`: says why, while the same person must log in again; what the page shows is kept, and hidden. */
  | { readonly kind: "open"; readonly who: string | undefined; readonly ended?: string };

export const session = cell<PageSession>({ kind: "starting" });
/** Set while a second factor is asked for; the dialog calls it with the result. */
export const stepping = cell<((done: boolean) => void) | undefined>(undefined);

interface Granted {
  readonly token: string;
  readonly recoveryCodes?: readonly string[];
}

/** Calls `/auth/…` with the cookie, which these routes set, read and clear. Waits out 429. @throws ApiRefusal */
async function auth<T>(method: string, path: string, body?: unknown): Promise<T> {
  for (let tries = 0; ; tries++) {
    const headers: Record<string, string> = {};
    if (body !== undefined) headers["content-type"] = "application/json";
    if (token.now !== undefined) headers["authorization"] = `Bearer ${token.now.text}`;
    const text = body === undefined ? undefined : JSON.stringify(body);
    const response = await send(method, path, { headers, body: text, credentials: "same-origin" });
    if (response.ok) return (await read<T>(response)).data;
    const refusal = await refusalOf(response);
    if (refusal.status !== 429 || tries >= 4) throw refusal;
    await waitOut(refusal, tries);
  }
}

function take({ token: text }: Granted): void {
  token.set(readToken(text));
}

/** Takes a fresh token of the person who is logged in; false for another, maybe of another tab. */
function refresh({ token: text }: Granted): boolean {
  const { now } = session;
  const read = readToken(text);
  const own = now.kind === "open" ? now.ended === undefined && read?.sub === now.who : now.kind === "starting";
  if (own) token.set(read);
  return own;
}

/** The login is done: what follows is a view of its own, or the one that was kept, which is read again. */
function enter(): void {
  spent.count = 0;
  const kept = session.now.kind === "open";
  session.set({ kind: "open", who: holderOf(token.now) });
  if (kept) publish({ event: "again" });
}

export async function setUp(code: string, username: string, password: string): Promise<void> {
  take(await auth<Granted>("POST", "/auth/setup", { code, username, password }));
  enter();
}

/** Resolves to whether a code of the second factor is required too. @throws ApiRefusal */
export async function logIn(username: string, password: string, code: string | undefined): Promise<"open" | "code"> {
  try {
    take(await auth<Granted>("POST", "/auth/login", { username, password, ...(code ? { code } : {}) }));
  } catch (error) {
    if (error instanceof ApiRefusal && error.code === "STEP_UP_REQUIRED" && code === undefined) return "code";
    throw error;
  }
  enter();
  return "open";
}

/** Takes a token from elsewhere, after trying it. @throws ApiRefusal */
export async function paste(text: string): Promise<void> {
  const read = readToken(text.trim());
  if (read === undefined) throw new Error("This is not a token: a JWT has three parts with dots between them.");
  token.set(read);
  try {
    await ask("GET", "/api-keys?limit=1");
  } catch (error) {
    token.set(undefined);
    throw error;
  }
  enter();
}

let renewing: Promise<boolean> | undefined;

/** Makes one renewal at a time, for any number of callers. */
function renew(): Promise<boolean> {
  if (!hasAccounts) return Promise.resolve(false);
  renewing ??= auth<Granted>("POST", "/auth/refresh")
    .then(refresh, (error: unknown) => {
      if (error instanceof ApiRefusal && error.status === 401) return false;
      throw error;
    })
    .finally(() => (renewing = undefined));
  return renewing;
}

export async function stepUp(code: string): Promise<void> {
  refresh(await auth<Granted>("POST", "/auth/step-up", { code }));
}

/** @returns the `otpauth:` address that authenticator apps read */
export const beginTotp = async (password: string, code: string | undefined): Promise<string> =>
  (await auth<{ uri: string }>("POST", "/auth/totp", { password, ...(code ? { code } : {}) })).uri;

/** @returns the recovery codes, which are shown only this once */
export async function confirmTotp(code: string): Promise<readonly string[]> {
  const granted = await auth<Granted>("PUT", "/auth/totp", { code });
  refresh(granted);
  return granted.recoveryCodes ?? [];
}

export async function logOut(): Promise<void> {
  if (hasAccounts) await auth("POST", "/auth/logout").catch(() => undefined);
  leave(undefined);
}

function leave(note: string | undefined): void {
  const { now } = session;
  stepping.now?.(false);
  dropBegun();
  token.set(undefined);
  if (isPortal) return session.set({ kind: "closed", note: note ?? LEFT });
  if (note !== undefined && now.kind === "open") return session.set({ ...now, ended: note });
  session.set({ kind: "login", note });
}

asked.renew = renew;
asked.ended = () => {
  // A token that is only tried, before a login, ends nothing.
  if (session.now.kind === "open")
    leave(isPortal ? OVER : "Your session has ended. Log in again to go on where you were.");
};
/** The question for a second factor that is open, for any number of requests that need one. */
let proving: Promise<boolean> | undefined;
asked.stepUp = () =>
  (proving ??= new Promise<boolean>((resolve) =>
    stepping.set((done) => {
      stepping.set(undefined);
      resolve(done);
    }),
  ).finally(() => (proving = undefined)));

const OVER = "This link has expired or was ended. Open the page again where you got it.";
const NO_LINK = "This page opens by a link only. Open it where you got yours.";
const LEFT = "You have left this page. Open it again where you got your link.";

const LINK = /^#link=([\w-]+\.[\w-]+\.[\w-]+)$/;

/**
 * Takes the link in the address: its token stands behind the `#`, which no server and no log sees. It is moved into the
 * memory of the page at once, so that neither the address nor the history keeps it. Without a link, nothing changes.
 */
function takeLink(): "taken" | "expired" | "none" {
  const text = LINK.exec(location.hash)?.[1];
  if (text === undefined) return "none";
  const read = readToken(text);
  const [keyId] = read?.keys ?? [];
  // A fresh link for what is open: who is at work goes on where they are.
  if (keyId !== undefined && token.now?.keys[0] === keyId) stay();
  else openAt(keyId === undefined ? [] : ["k", keyId, "overview"]);
  // The relay decides whether it has expired: its clock may not be the browser's.
  if (read === undefined || keyId === undefined) return "expired";
  // There is nothing to renew it with.
  token.set({ ...read, renewAt: read.expiresAt });
  return "taken";
}

/** Opens the portal with the link in the address, now and whenever the page that frames it puts a fresh one there. */
function beginPortal(): void {
  const take = (first: boolean): void => {
    const found = takeLink();
    if (found === "taken") enter();
    else if (first || found === "expired") leave(found === "expired" ? OVER : NO_LINK);
  };
  addEventListener("hashchange", () => take(false));
  take(true);
}

/** Resumes the browser's session, or shows the login. */
export async function begin(): Promise<void> {
  if (isPortal) return beginPortal();
  if (!hasAccounts) return session.set({ kind: "login" });
  if (isFirstRun) return session.set({ kind: "setup" });
  try {
    session.set((await renew()) ? { kind: "open", who: holderOf(token.now) } : { kind: "login" });
  } catch (error) {
    session.set({ kind: "login", note: (error as Error).message });
  }
}
