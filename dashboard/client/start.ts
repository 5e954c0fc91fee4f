/**
 * Runs in the head, before anything is drawn and while the rest is on its way: sets the theme, resumes the session and asks
 * for what the first view shows. It only saves time: what is not asked for here, the view asks for itself.
 */
import { beginRequest } from "./state/begun.ts";

const page = document.documentElement.dataset;

// The theme that the user has chosen. A portal stands in a frame of another site, where there may be no storage.
if (page["auth"] !== "portal") {
  const stored = localStorage.getItem("relay.theme");
  if (stored === "light" || stored === "dark") page["theme"] = stored;
}

interface FirstReading {
  readonly stream: string;
  readonly path: string;
}

const ADDRESS = /^#\/k\/([\w:-]+)\/([a-z]+)(?:\/([\w:-]+))?$/;

/** Returns `undefined` for an address with a filter, and for views that are not opened by their address as a rule. */
function firstReading(hash: string): FirstReading | undefined {
  const [, keyId, view, id] = ADDRESS.exec(hash) ?? [];
  if (keyId === undefined) return undefined;
  const key = `/api-keys/${encodeURIComponent(keyId)}`;
  const path = pathOf(view, id && encodeURIComponent(id));
  return path === undefined ? undefined : { stream: `${key}/stream`, path: key + path };
}

function pathOf(view: string | undefined, id: string | undefined): string | undefined {
  switch (view) {
    case "events":
    case "attempts":
      return id === undefined ? `/${view}?limit=25` : view === "events" ? `/events/${id}` : undefined;
    case "overview":
      return id === undefined ? "/stats?range=1h" : undefined;
    case "subscriptions":
      return id === undefined ? "/stats?range=24h&recent=50" : `/stats?range=24h&subscriptionId=${id}`;
    default:
      return undefined;
  }
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
