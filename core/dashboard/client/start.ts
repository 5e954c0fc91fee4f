/**
 * Runs in the head, before anything is drawn and while the rest is on its way: sets the theme, resumes the session and asks
 * for what the first view shows. All of it holds without: what was not begun here is asked for by the view.
 */
import { beginRequest } from "./begun.ts";
import { firstReading } from "./first-reading.ts";

const page = document.documentElement.dataset;

// The user's choice of a theme is all that the page ever stores. In a frame of another site there may be no storage.
if (page["auth"] !== "portal") {
  const stored = localStorage.getItem("relay.theme");
  if (stored === "light" || stored === "dark") page["theme"] = stored;
}

/** The stream tells when something may have happened before it was open: the list is asked for at the same time. */
async function begin(): Promise<void> {
  const renewed = await beginRequest("POST", "/auth/refresh", { credentials: "same-origin" });
  const reading = firstReading(location.hash);
  if (!renewed.ok || reading === undefined) return;
  const { data, meta } = (await renewed.clone().json()) as { data: { token: string }; meta: { timestamp: string } };
  const init = { headers: { authorization: `Bearer ${data.token}` }, credentials: "omit" } as const;
  await Promise.all([
    beginRequest("GET", reading.stream, init, `?since=${meta.timestamp}`),
    beginRequest("GET", reading.path, init),
  ]);
}

// Whoever takes an answer hears why there is none.
if (page["auth"] === "accounts" && page["firstRun"] === "no") begin().catch(() => undefined);
