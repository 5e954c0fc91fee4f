/** Chooses the view of an address, and shows the login before all of them. */
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { AccountPage } from "./account.ts";
import { Audit } from "./audit-list.ts";
import { useCell } from "./cell.ts";
import { waitNotice } from "./choices.ts";
import { el, part } from "./dom.ts";
import { Deliveries } from "./delivery.ts";
import { EventView } from "./event.ts";
import { Events } from "./events.ts";
import { isKeyId, lastKey, loadKeys, rememberKey } from "./api-keys.ts";
import { Login, Paste, Setup } from "./login.ts";
import { Overview } from "./overview.ts";
import { empty, PageFrame, problem, skeleton, useLoad } from "./elements.ts";
import { RelayStatus } from "./relay-status.ts";
import { place, settleRoute, to, type PagePlace } from "./route.ts";
import { session } from "./session.ts";
import { KeyForm, Shell } from "./shell.ts";
import { StepUp } from "./step-up.ts";
import { SubscriptionView } from "./subscription.ts";
import { SubscriptionList } from "./subscriptions.ts";

export const App = part(() => {
  const now = useCell(session);
  switch (now.kind) {
    case "starting":
      return el.main(
        { class: "boot" },
        el.p({ class: "brand" }, "Relay"),
        waitNotice({}),
        el.p({ role: "status" }, "Loading…"),
      );
    case "setup":
      return Setup({});
    case "login":
      return Login({ note: now.note });
    case "paste":
      return Paste({ note: now.note });
    case "open":
      return el.div(null, Inside({}), StepUp({}));
  }
});

const Inside = part(() => {
  const here = useCell(place);
  const [area, keyId] = here.parts;
  const inKey = area === "k" && keyId !== undefined && isKeyId(keyId);
  useEffect(() => {
    if (inKey) rememberKey(keyId);
  }, [keyId]);
  return Shell({ keyId: inKey ? keyId : lastKey(), here, children: view(here) });
});

function view(here: PagePlace): VNode {
  const [area, keyId, name, id, more] = here.parts;
  if (area === "account") return AccountPage({ key: "account" });
  if (area === "relay") return RelayStatus({ key: "relay" });
  if (area === "keys") return ChooseKey({ key: "keys" });
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
    case "audit":
      return Audit({ key: keyId, keyId });
    default:
      return lost();
  }
}

const lost = (): VNode =>
  PageFrame({
    title: "Nothing here",
    children: empty(
      "There is no such view",
      "The address may have been cut off.",
      el.a({ class: "button", href: "#/" }, "Go to the start"),
    ),
  });

/** Without an address: the last key in view, else the first one. */
const Landing = part(() => {
  const last = lastKey();
  const { data, error } = useLoad(() => (last === undefined ? loadKeys() : Promise.resolve([last])), []);
  const first = data?.[0];
  useEffect(() => {
    if (first !== undefined) settleRoute(["k", first, "overview"]);
  }, [first]);
  if (error !== undefined) return PageFrame({ title: "Start", children: problem(error) });
  if (data === undefined || first !== undefined) return skeleton();
  return ChooseKey({});
});

const ChooseKey = part(() => {
  const { data, error } = useLoad(() => loadKeys(true), []);
  return PageFrame({
    title: "API keys",
    children: [
      problem(error),
      data === undefined && error === undefined && skeleton(),
      data !== undefined &&
        data.length > 0 &&
        el.ul(
          { class: "keys" },
          ...data.map((id) => el.li({ key: id }, el.a({ href: to(["k", id, "overview"]) }, id))),
        ),
      data !== undefined &&
        el.div(
          { class: "card" },
          el.h2(null, data.length === 0 ? "No API key is in use yet" : "Another key"),
          el.p(
            null,
            "Subscriptions and events belong to an API key. A key exists as soon as someone names it: enter its id to begin.",
          ),
          KeyForm({}),
        ),
    ],
  });
});
