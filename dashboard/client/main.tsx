/** Starts the page, and chooses the view of an address: the login comes before all of them. */
import { render, type VNode } from "preact";
import { waiting } from "./state/api.ts";
import { dropBegun } from "./state/begun.ts";
import { begin, session } from "./state/session.ts";
import { useEffect } from "preact/hooks";
import { AccountPage } from "./views/account.tsx";
import { AllKeys } from "./views/all-keys.tsx";
import { Attempts } from "./views/attempts.tsx";
import { Audit } from "./views/audit-list.tsx";
import { useCell } from "./state/cell.ts";
import { WaitNotice } from "./kit/choices.tsx";
import { Deliveries } from "./views/deliveries.tsx";
import { EventView } from "./views/event.tsx";
import { EventTypes } from "./views/event-types.tsx";
import { Events } from "./views/events.tsx";
import { isKeyId, lastKey, loadKeys, rememberKey } from "./state/api-keys.ts";
import { Closed, Login, LoginAgain, Setup, StepUp } from "./views/login.tsx";
import { Overview } from "./views/overview.tsx";
import { brand, empty, link, PageFrame, problem, skeleton } from "./kit/elements.tsx";
import { useLoad } from "./state/load.ts";
import { RelayStatus } from "./views/relay-status.tsx";
import { ShownOnce } from "./kit/once.tsx";
import { hasAccounts, isPortal } from "./state/page-facts.ts";
import { type PagePlace, place, settleRoute } from "./state/route.ts";
import { Shell } from "./shell.tsx";
import { SubscriptionView } from "./views/subscription.tsx";
import { SubscriptionList } from "./views/subscriptions.tsx";
import { Users } from "./views/users.tsx";

const App = () => {
  const now = useCell(session);
  switch (now.kind) {
    case "starting":
      return (
        <main class="boot">
          {brand()}
          <WaitNotice />
          <p role="status">Loading…</p>
        </main>
      );
    case "setup":
      return <Setup />;
    case "login":
      return <Login note={now.note} />;
    case "closed":
      return <Closed note={now.note} />;
    case "open":
      // The key makes a new page when another person logs in, so that they do not see what the person before has typed.
      return (
        <div>
          <Inside key={now.who ?? ""} />
          <StepUp />
          {now.ended === undefined && <ShownOnce />}
          {now.ended !== undefined && <LoginAgain note={now.ended} />}
        </div>
      );
  }
};

const Inside = () => {
  const here = useCell(place);
  const [area, keyId] = here.parts;
  const inKey = area === "k" && keyId !== undefined && isKeyId(keyId);
  useEffect(() => {
    if (inKey) rememberKey(keyId);
  }, [keyId]);
  return (
    <Shell keyId={inKey && !isPortal ? keyId : lastKey()} here={here}>
      {view(here)}
    </Shell>
  );
};

function view(here: PagePlace): VNode {
  const [area, keyId, name, id, more] = here.parts;
  if (isPortal && !inPortal(here)) return lost();
  if (area === "account") return <AccountPage key="account" />;
  if (area === "relay") return <RelayStatus key="relay" />;
  if (area === "users" && hasAccounts) return <Users key="users" />;
  if (area === "keys") return <AllKeys key="keys" />;
  if (area === undefined) return <Landing key="landing" />;
  if (area !== "k" || keyId === undefined || !isKeyId(keyId)) return lost();
  const { query } = here;
  switch (name) {
    case "overview":
      return <Overview key={keyId} keyId={keyId} query={query} />;
    case "subscriptions":
      if (id === undefined) return <SubscriptionList key={keyId} keyId={keyId} query={query} />;
      if (more === "deliveries")
        return <Deliveries key={`${keyId} ${id} deliveries`} keyId={keyId} id={id} query={query} />;
      return <SubscriptionView key={`${keyId} ${id}`} keyId={keyId} id={id} />;
    case "events":
      if (id === undefined) return <Events key={keyId} keyId={keyId} query={query} />;
      return <EventView key={`${keyId} ${id}`} keyId={keyId} id={id} />;
    case "attempts":
      return <Attempts key={keyId} keyId={keyId} query={query} />;
    case "types":
      return <EventTypes key={keyId} keyId={keyId} />;
    case "audit":
      return <Audit key={keyId} keyId={keyId} query={query} />;
    default:
      return lost();
  }
}

/** Returns true for a view of the link's key. */
const inPortal = ({ parts: [area, keyId, name] }: PagePlace): boolean =>
  area === undefined || (area === "k" && keyId === lastKey() && name !== "audit");

const lost = (): VNode => (
  <PageFrame title="Nothing here">
    {empty("There is no such view", "The address may have been cut off.", link("#/", "Go to the start", "button"))}
  </PageFrame>
);

/** Without an address: the only key, or all of them. */
const Landing = () => {
  const portal = isPortal ? lastKey() : undefined;
  const { data, error, again } = useLoad(() => (portal === undefined ? loadKeys() : Promise.resolve([portal])), []);
  const only = data?.length === 1 ? data[0] : undefined;
  useEffect(() => {
    if (only !== undefined) settleRoute(["k", only, "overview"]);
  }, [only]);
  if (error !== undefined) return <PageFrame title="Start">{problem(error, again)}</PageFrame>;
  if (data === undefined || only !== undefined) return skeleton();
  return <AllKeys />;
};

/** By then the first view has taken what was begun for it. */
const TAKEN_MS = 5_000;

const root = document.getElementById("app");
if (root !== null) {
  let drawn = false;
  // Until there is more to show, the document says all of it: drawing that once more would only take time.
  const draw = (): void => {
    if (drawn) return;
    drawn = true;
    root.textContent = "";
    render(<App />, root);
  };
  session.watch(draw);
  waiting.watch(draw);
  setTimeout(dropBegun, TAKEN_MS);
  void begin();
}
