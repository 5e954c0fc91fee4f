/** Chooses the view of an address, and shows the login before all of them. */
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { AccountPage } from "./account.ts";
import { brand } from "./brand.ts";
import { AllKeys } from "./all-keys.ts";
import { Attempts } from "./attempts.ts";
import { Audit } from "./audit-list.ts";
import { useCell } from "./cell.ts";
import { waitNotice } from "./choices.ts";
import { el, part } from "./dom.ts";
import { Deliveries } from "./delivery.ts";
import { EventView } from "./event.ts";
import { EventTypes } from "./event-types.ts";
import { Events } from "./events.ts";
import { isKeyId, lastKey, loadKeys, rememberKey } from "./api-keys.ts";
import { Closed, Login, LoginAgain, Paste, Setup } from "./login.ts";
import { Overview } from "./overview.ts";
import { empty, PageFrame, problem, skeleton } from "./elements.ts";
import { useLoad } from "./load.ts";
import { RelayStatus } from "./relay-status.ts";
import { ShownOnce } from "./once.ts";
import { hasAccounts, isPortal } from "./page-facts.ts";
import { place, settleRoute, type PagePlace } from "./route.ts";
import { session } from "./session.ts";
import { Shell } from "./shell.ts";
import { StepUp } from "./step-up.ts";
import { SubscriptionView } from "./subscription.ts";
import { SubscriptionList } from "./subscriptions.ts";
import { Users } from "./users.ts";

export const App = part(() => {
  const now = useCell(session);
  switch (now.kind) {
    case "starting":
      return el.main({ class: "boot" }, brand(), waitNotice({}), el.p({ role: "status" }, "Loading…"));
    case "setup":
      return Setup({});
    case "login":
      return Login({ note: now.note });
    case "paste":
      return Paste({ note: now.note });
    case "closed":
      return Closed({ note: now.note });
    case "open":
      // The key makes a new page when another person logs in, so that they do not see what the person before has typed.
      return el.div(
        null,
        Inside({ key: now.who ?? "" }),
        StepUp({}),
        // Not above the login, which hides what was shown.
        now.ended === undefined && ShownOnce({}),
        now.ended !== undefined && LoginAgain({ note: now.ended }),
      );
  }
});

const Inside = part(() => {
  const here = useCell(place);
  const [area, keyId] = here.parts;
  const inKey = area === "k" && keyId !== undefined && isKeyId(keyId);
  useEffect(() => {
    if (inKey) rememberKey(keyId);
  }, [keyId]);
  return Shell({ keyId: inKey && !isPortal ? keyId : lastKey(), here, children: view(here) });
});

function view(here: PagePlace): VNode {
  const [area, keyId, name, id, more] = here.parts;
  if (isPortal && !inPortal(here)) return lost();
  if (area === "account") return AccountPage({ key: "account" });
  if (area === "relay") return RelayStatus({ key: "relay" });
  if (area === "users" && hasAccounts) return Users({ key: "users" });
  if (area === "keys") return AllKeys({ key: "keys" });
  if (area === undefined) return Landing({ key: "landing" });
  if (area !== "k" || keyId === undefined || !isKeyId(keyId)) return lost();
  const { query } = here;
  switch (name) {
    case "overview":
      return Overview({ key: keyId, keyId, query });
    case "subscriptions":
      if (id === undefined) return SubscriptionList({ key: keyId, keyId });
      if (more === "deliveries") return Deliveries({ key: `${keyId} ${id} deliveries`, keyId, id, query });
      return SubscriptionView({ key: `${keyId} ${id}`, keyId, id });
    case "events":
      if (id === undefined) return Events({ key: keyId, keyId, query });
      return EventView({ key: `${keyId} ${id}`, keyId, id });
    case "attempts":
      return Attempts({ key: keyId, keyId, query });
    case "types":
      return EventTypes({ key: keyId, keyId });
    case "audit":
      return Audit({ key: keyId, keyId, query });
    default:
      return lost();
  }
}

/** Whether a view is one of the link's key. */
const inPortal = ({ parts: [area, keyId, name] }: PagePlace): boolean =>
  area === undefined || (area === "k" && keyId === lastKey() && name !== "audit");

const lost = (): VNode =>
  PageFrame({
    title: "Nothing here",
    children: empty(
      "There is no such view",
      "The address may have been cut off.",
      el.a({ class: "button", href: "#/" }, "Go to the start"),
    ),
  });

/** Without an address: the only key, or all of them. */
const Landing = part(() => {
  const portal = isPortal ? lastKey() : undefined;
  const { data, error, again } = useLoad(() => (portal === undefined ? loadKeys() : Promise.resolve([portal])), []);
  const only = data?.length === 1 ? data[0] : undefined;
  useEffect(() => {
    if (only !== undefined) settleRoute(["k", only, "overview"]);
  }, [only]);
  if (error !== undefined) return PageFrame({ title: "Start", children: problem(error, again) });
  if (data === undefined || only !== undefined) return skeleton();
  return AllKeys({});
});
