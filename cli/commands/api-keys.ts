/** `relay api-keys`: lists and erases the API keys that are in use, and makes links to their portals, through the API. A key exists as soon as something names it. */
import { PAGE_OPTIONS, pageOf, pathOf, withQuery } from "../support/api-path.ts";
import { openApi } from "../support/client.ts";
import { ACCESS_OPTION, API_OPTIONS, type Command, type Given, JSON_OPTION, readAccess } from "../support/command.ts";
import { usage } from "../support/exit.ts";
import { json, printable, printTable } from "../support/output.ts";
import { asking, sayMore } from "../support/plain.ts";
import { rows } from "../support/response-shape.ts";

interface ListedKey {
  readonly id: string;
  readonly figures?: Readonly<Record<string, number | null>>;
}
const FIGURES = ["accepted", "filtered", "attempts", "delivered", "failed"] as const;

const apiKeys: Command = {
  usage: "api-keys",
  about: "list the ids of the API keys that have subscriptions or events",
  options: [
    { flags: "--range <range>", about: "with their figures of the last 1h, 24h or 7d" },
    ...PAGE_OPTIONS,
    JSON_OPTION,
    ...API_OPTIONS,
  ],
  async run(given, io) {
    const api = await openApi(given, io);
    const range = given.text("range");
    const answer = await api.ask("GET", withQuery("/api-keys", { range, ...pageOf(given) }));
    const keys = rows<ListedKey>(answer, { id: "text" });
    if (given.flag("json")) io.print(json(keys));
    else if (keys.length === 0) io.say("relay: no key is in use yet; publish or subscribe with --key key_1");
    else if (range === undefined) for (const { id } of keys) io.print(printable(id));
    else {
      const cells = keys.map(({ id, figures }) => [id, ...FIGURES.map((name) => String(figures?.[name] ?? "–"))]);
      io.print(printTable(["id", ...FIGURES], cells));
    }
    sayMore(answer, io);
  },
};

const erase = asking<{ readonly id?: string; readonly startedAt: string }>({
  usage: "api-keys erase <key>",
  about: "erase a key with its subscriptions, events and deliveries; there is no way back",
  options: [{ flags: "--yes", about: "needed: it says that this is meant" }, JSON_OPTION, ...API_OPTIONS],
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

const portalLink = asking<{ readonly url: string; readonly expiresAt: string }>({
  usage: "api-keys portal-link <key>",
  about: "make a link that opens the portal of a key, for your customer",
  options: [
    ACCESS_OPTION,
    { flags: "--expires-in <seconds>", about: "how long it opens, 60 to 86400 (3600)" },
    JSON_OPTION,
    ...API_OPTIONS,
  ],
  examples: ["relay api-keys portal-link key_1 --access read --expires-in 600"],
  ask(given) {
    const access = readAccess(given) ?? "manage";
    const expiresInSeconds = given.whole("expires-in", 60, 86_400);
    return { method: "POST", path: links(given), body: { access, ...(expiresInSeconds && { expiresInSeconds }) } };
  },
  shape: { url: "text", expiresAt: "text" },
  show: ({ url }, io) => io.print(printable(url)),
  after: ({ expiresAt }, io) => io.say(`relay: everybody who has the link may use it until ${printable(expiresAt)}`),
});

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
