/** `relay api-keys`: lists and erases the API keys that are in use, and makes links to their portals. A key exists as soon as something names it. */
import { asking, PAGE_OPTIONS, pageOf, pathOf, sayMore, shaped, withQuery } from "../support/ask.ts";
import { openApi } from "../support/client.ts";
import { ACCESS_OPTION, API_OPTIONS, type Command, type Given, JSON_OPTION, readAccess } from "../support/command.ts";
import { usage } from "../support/exit.ts";
import { json, printable, printTable, textOf } from "../support/output.ts";

const FIGURES = ["accepted", "filtered", "attempts", "delivered", "failed"] as const;

const apiKeys = asking({
  usage: "api-keys",
  about: "list the ids of the API keys that have subscriptions or events",
  options: {
    "--range <range>": "with their figures of the last 1h, 24h or 7d",
    ...PAGE_OPTIONS,
    ...JSON_OPTION,
    ...API_OPTIONS,
  },
  ask: (given) => ({ path: withQuery("/api-keys", { range: given.text("range"), ...pageOf(given) }) }),
  shape: [{ id: "text", "figures?": "map" }],
  show(keys, io, given) {
    if (keys.length === 0) return io.say("relay: no key is in use yet; publish or subscribe with --key key_1");
    if (given.text("range") === undefined) return keys.forEach(({ id }) => io.print(printable(id)));
    const cells = keys.map(({ id, figures }) => [id, ...FIGURES.map((name) => textOf(figures?.[name] ?? "–"))]);
    io.print(printTable(["id", ...FIGURES], cells));
  },
  after: (_, io, answer) => sayMore(answer, io),
});

const erase = asking({
  usage: "api-keys erase <key>",
  about: "erase a key with its subscriptions, events and deliveries; there is no way back",
  options: { "--yes": "needed: it says that this is meant", ...JSON_OPTION, ...API_OPTIONS },
  examples: ["relay api-keys erase key_1 --yes"],
  ask(given) {
    const [id = ""] = given.args;
    if (!given.flag("yes"))
      throw usage(`this deletes every event and subscription of ${printable(id)} for ever: add --yes when it is meant`);
    return { method: "DELETE", path: pathOf("api-keys", id), right: "stepped-up" };
  },
  shape: { startedAt: "text" },
  show: ({ startedAt }, io, { args: [id = ""] }) =>
    io.say(`relay: ${printable(id)} is being erased since ${printable(startedAt)}: its audit says when it is done`),
});

const portalLink: Command = {
  usage: "api-keys portal-link <key>",
  about: "make a link that opens the portal of a key, for your customer",
  options: {
    ...ACCESS_OPTION,
    "--expires-in <seconds>": "how long it opens, 60 to 86400 (3600)",
    ...JSON_OPTION,
    ...API_OPTIONS,
  },
  examples: ["relay api-keys portal-link key_1 --access read --expires-in 600"],
  async run(given, io) {
    const access = readAccess(given) ?? "manage";
    const expiresInSeconds = given.whole("expires-in", 60, 86_400);
    const api = await openApi(given, io);
    const answer = await api.ask("POST", links(given), { access, expiresInSeconds });
    const made = shaped(answer, { url: "text", expiresAt: "text" });
    const { href: url } = new URL(made.url, `${api.base}/`);
    io.print(given.flag("json") ? json({ ...made, url }) : printable(url));
    io.say(`relay: everybody who has the link may use it until ${printable(made.expiresAt)}`);
  },
};

const endPortalLinks: Command = {
  usage: "api-keys end-portal-links <key>",
  about: "end all links to the portal of a key",
  options: API_OPTIONS,
  async run(given, io) {
    await (await openApi(given, io)).ask("DELETE", links(given));
    io.say(`relay: no link opens the portal of ${printable(given.args[0] ?? "")} any more`);
  },
};

const links = ({ args: [id] }: Given): string => pathOf("api-keys", id, "portal-links");

export const commands: readonly Command[] = [apiKeys, erase, portalLink, endPortalLinks];
