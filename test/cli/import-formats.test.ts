import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { bodyErrors } from "../../cli/import/check.ts";
import { readEntries } from "../../cli/import/entries.ts";
import { convoy, ours, svix } from "../../cli/import/formats.ts";

const URL = "https://hooks.example.com/relay";

describe("the entries of a file", () => {
  it("are those of a list, of a listing, of a page of Convoy, or one a line", () => {
    const items = [{ place: "item 1", fields: { a: 1 } }];
    for (const text of ['[{"a":1}]', '{"data":[{"a":1}],"meta":{}}', '{"data":{"content":[{"a":1}]},"status":true}'])
      expect(readEntries(text)).toEqual({ entries: items, more: false });
    expect(readEntries('{"a":1}\r\n\n[1]\nno\n{"b":2}\n').entries).toEqual([
      { place: "line 1", fields: { a: 1 } },
      { place: "line 3", fields: undefined },
      { place: "line 4", fields: undefined },
      { place: "line 5", fields: { b: 2 } },
    ]);
    expect(readEntries("[7]").entries).toEqual([{ place: "item 1", fields: undefined }]);
    expect(readEntries(" \n").entries).toEqual([]);
  });

  it("are not all that there are where the file is a page, and says that others follow", () => {
    const more = (text: string): boolean => readEntries(text).more;
    expect(more('{"data":[{"a":1}],"iterator":"ep_1","done":false}')).toBe(true);
    expect(more('{"data":[{"a":1}],"iterator":"ep_1","done":true}')).toBe(false);
    const convoyed = (next: boolean): string => `{"data":{"content":[],"pagination":{"has_next_page":${next}}}}`;
    expect([more(convoyed(true)), more(convoyed(false))]).toEqual([true, false]);
  });
});

describe("the relay's own format", () => {
  it("is as the guide shows it", () => {
    const [, example = ""] = /^```json\n([^]*?)^```$/m.exec(readFileSync("docs/moving.md", "utf8")) ?? [];
    const [entry] = readEntries(example).entries;
    const made = ours(entry?.fields ?? {});
    expect("body" in made && [Object.keys(made.body), bodyErrors(made.body)]).toEqual([
      ["url", "events", "secret", "description"],
      [],
    ]);
  });
});

describe("an endpoint of Svix", () => {
  const listed = {
    id: "ep_1",
    uid: null,
    url: URL,
    description: "An endpoint",
    version: 1,
    disabled: false,
    filterTypes: ["invoice.paid"],
    channels: null,
    metadata: { plan: "gold" },
    rateLimit: 5,
    createdAt: "2026-01-01T00:00:00Z",
    updatedAt: "2026-01-01T00:00:00Z",
  };

  it("becomes a subscription; what has no counterpart is said", () => {
    const key = `whsec_${Buffer.from("24 bytes of a long secret").toString("base64")}`;
    const made = svix({ ...listed, key, throttleRate: 7 });
    const body = {
      url: URL,
      events: ["invoice.paid"],
      description: "An endpoint",
      rateLimit: { perSecond: 7 },
      secret: key,
    };
    expect(made).toEqual({ body, notes: ["metadata", "rateLimit"] });
    expect("body" in made && bodyErrors(made.body)).toEqual([]);
  });

  it("gets all types where it names none, and keeps a field that is not known for the check", () => {
    const made = svix({ url: URL, secret: null, headers: { "X-A": "1" }, colour: "red" });
    expect(made).toEqual({ body: { url: URL, events: ["*"], headers: { "X-A": "1" }, colour: "red" }, notes: [] });
    expect("body" in made && bodyErrors(made.body)).toEqual(["colour: is not known"]);
  });

  it("stays disabled where it is, and is refused when it has channels", () => {
    const made = svix({ ...listed, disabled: true });
    expect(made).toMatchObject({ body: { url: URL, status: "disabled" } });
    expect("body" in made && bodyErrors(made.body)).toEqual([]);
    expect(svix({ ...listed, channels: ["eu"] })).toMatchObject({ errors: [expect.stringMatching(/^channels: /)] });
  });
});

describe("a subscription of Convoy", () => {
  const value = "Vuk5LM0uujddIsqO5v_eSuz88";
  const endpoint = {
    uid: "1",
    url: URL,
    status: "active",
    secrets: [
      { uid: "1", value: "an older one", expires_at: "2026-01-01T00:00:00Z", deleted_at: null },
      { uid: "2", value, expires_at: null, deleted_at: null },
    ],
    authentication: { type: "api_key", api_key: { header_name: "X-Api-Key", header_value: "7" } },
    http_timeout: 10,
  };
  const listed = {
    uid: "1",
    name: "books",
    endpoint_metadata: endpoint,
    filter_config: { event_types: ["*"], filter: { body: {}, headers: {} } },
    function: "",
    retry_config: { type: "linear" },
  };

  it("becomes a subscription whose decoded secret is the old one, byte for byte", () => {
    const made = convoy(listed);
    const secret = `whsec_${Buffer.from(value).toString("base64")}`;
    expect(made).toEqual({
      body: { url: URL, events: ["*"], description: "books", headers: { "X-Api-Key": "7" }, secret },
      notes: ["retry_config", "endpoint_metadata.http_timeout"],
    });
    expect("body" in made && bodyErrors(made.body)).toEqual([]);
  });

  it("is disabled when its endpoint is paused, and refused where it would send more or other than it did", () => {
    expect(convoy({ ...listed, endpoint_metadata: { ...endpoint, status: "paused" } })).toMatchObject({
      body: { status: "disabled" },
    });
    const refused: [Record<string, unknown>, RegExp][] = [
      [{ filter_config: { event_types: ["*"], filter: { body: { a: 1 } } } }, /^filter_config.filter: /],
      [{ function: "(x) => x" }, /^function: /],
      [{ endpoint_metadata: { ...endpoint, authentication: { type: "oauth2" } } }, /authentication: only api_key/],
      [{ endpoint_metadata: { ...endpoint, secrets: [{ value }, { value }] } }, /must hold one secret/],
      [{ endpoint_metadata: { ...endpoint, mtls_client_cert: { client_cert: "c" } } }, /client certificate/],
    ];
    for (const [more, message] of refused)
      expect(convoy({ ...listed, ...more })).toMatchObject({ errors: [expect.stringMatching(message)] });
  });

  it("without an endpoint or event types is refused by the check", () => {
    const made = convoy({ uid: "1" });
    expect("body" in made && bodyErrors(made.body)).toEqual(["url: is missing", "events: is missing"]);
  });
});
