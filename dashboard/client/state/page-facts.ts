/** Holds what the relay wrote into the page: which page it is, and whose name it bears. */

const { dataset } = document.documentElement;

/** The relay keeps accounts of its own. */
export const hasAccounts = dataset["auth"] === "accounts";
/** This is the portal: one key, behind a link, perhaps in a frame, where nothing can be stored. */
export const isPortal = dataset["auth"] === "portal";
/** Links to a portal can be made. */
export const hasPortal = dataset["portal"] === "yes";
export const isFirstRun = dataset["firstRun"] === "yes";
export const product = dataset["product"] ?? "Relaybox";
/** The address of the product's picture. */
export const logo = dataset["logo"];
/** The address of the reference and the guides; in a portal, of the operator's documentation, where there is one. */
export const docs = dataset["docs"];
/** The `User-Agent` that the relay sends. */
export const userAgent = dataset["agent"] ?? "Relay";
/** Headers that it sends a second time: the other name, and the header that is repeated. */
export const repeatedHeaders = Object.entries(JSON.parse(dataset["repeated"] ?? "{}") as Record<string, string>);

/** The views of a key, as they stand in an address and in the navigation. The audit names people of the operator's. */
export const keyViews: readonly (readonly [name: string, text: string])[] = [
  ["overview", "Overview"],
  ["subscriptions", "Subscriptions"],
  ["events", "Events"],
  ["attempts", "Attempts"],
  ["types", "Event types"],
  ...(isPortal ? [] : [["audit", "Audit"] as const]),
];
