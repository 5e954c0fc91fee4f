/** `relay api-keys`: lists and erases the API keys that are in use, and makes links to their portals, through the API. A key exists as soon as something names it. */
import { PAGE_OPTIONS, pageOf, pathOf, withQuery } from "../support/api-path.ts";
import { openApi } from "../support/client.ts";
import { ACCESS_OPTION, API_OPTIONS, type Command, type Given, JSON_OPTION, readAccess } from "../support/command.ts";
import { usage } from "../support/exit.ts";
import { json, printable, printTable } from "../support/output.ts";
import { record, rows } from "../support/response-shape.ts";

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
    if (answer.nextCursor !== undefined) io.say(`relay: there are more: --cursor ${printable(answer.nextCursor)}`);
  },
};

const erase: Command = {
  usage: "api-keys erase <key>",
  about: "erase a key with its subscriptions, events and deliveries; there is no way back",
  options: [{ flags: "--yes", about: "needed: it says that this is meant" }, JSON_OPTION, ...API_OPTIONS],
  examples: ["relay api-keys erase key_1 --yes"],
  async run(given, io) {
    const id = given.args[0] ?? "";
    if (!given.flag("yes"))
      throw usage(`this deletes every event and subscription of ${printable(id)} for ever: add --yes when it is meant`);
    const api = await openApi(given, io, "stepped-up");
    const answer = await api.ask("DELETE", pathOf("api-keys", id));
    const { startedAt } = record<{ readonly startedAt: string }>(answer, { startedAt: "text" });
    if (given.flag("json")) io.print(json({ id, startedAt }));
    else
      io.say(`relay: ${printable(id)} is being erased since ${printable(startedAt)}: its audit says when it is done`);
  },
};

const portalLink: Command = {
  usage: "api-keys portal-link <key>",
  about: "make a link that opens the portal of a key, for your customer",
  options: [
    ACCESS_OPTION,
    { flags: "--expires-in <seconds>", about: "how long it opens, 60 to 86400 (3600)" },
    JSON_OPTION,
    ...API_OPTIONS,
  ],
  examples: ["relay api-keys portal-link key_1 --access read --expires-in 600"],
  async run(given, io) {
    const access = readAccess(given) ?? "manage";
    const expiresInSeconds = given.whole("expires-in", 60, 86_400);
    const api = await openApi(given, io);
    const answer = await api.ask("POST", links(given), { access, ...(expiresInSeconds && { expiresInSeconds }) });
    const made = record<{ readonly url: string; readonly expiresAt: string }>(answer, {
      url: "text",
      expiresAt: "text",
    });
    if (given.flag("json")) io.print(json(made));
    else io.print(printable(made.url));
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
