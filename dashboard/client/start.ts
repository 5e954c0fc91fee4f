/**
 * Runs in the head, before anything is drawn and while the rest is on its way: sets the theme, resumes the session and asks
 * for what the first view shows. It only saves time: what is not asked for here, the view asks for itself.
 */
import { beginRequest } from "./state/begun.ts";
import { firstReading } from "./state/first-reading.ts";

const page = document.documentElement.dataset;

// The theme that the user has chosen. A portal stands in a frame of another site, where there may be no storage.
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

// A view that takes the answer gets the error too.
if (page["auth"] === "accounts" && page["firstRun"] === "no") begin().catch(() => undefined);
