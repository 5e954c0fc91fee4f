// Several requests on one connection: each stored one is told so, and nothing is carried out behind an answer that ends it.
import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { kept } from "../support/kept.ts";
import { startRelay, TEST_KEYS } from "../support/relay.ts";

const relay = kept(await startRelay());

const event = (id: string): string => JSON.stringify({ type: "a:b", keyId: "key_1", id, data: 1 });
interface Head {
  readonly line?: string;
  readonly host?: string;
  readonly more?: string;
}
const head = ({ line = "POST /events HTTP/1.1", host = "Host: x\r\n", more = "" }: Head): string =>
  `${line}\r\n${host}Authorization: Bearer ${TEST_KEYS.publishToken}\r\nContent-Type: application/json\r\n${more}\r\n`;
const whole = (id: string, how: Head = {}): string =>
  head({ ...how, more: `Content-Length: ${event(id).length}\r\n${how.more ?? ""}` }) + event(id);

/** Sends bytes in one go; all that comes back until the connection ends. */
function talk(bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const made = connect({ port: Number(new URL(relay.url).port), host: "127.0.0.1", allowHalfOpen: true });
    let text = "";
    made.on("data", (part: Buffer) => (text += part.toString("latin1")));
    made.on("error", () => undefined);
    made.once("end", () => made.end());
    made.once("close", () => resolve(text));
    made.write(bytes);
  });
}

const statuses = (text: string): readonly string[] =>
  [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((one) => one[1] ?? "");
const isStored = async (id: string): Promise<boolean> =>
  (await relay.call("GET", `/api-keys/key_1/events/${id}`)).status === 200;

describe("an event that is stored", () => {
  it.each<[string, string, readonly string[]]>([
    ["bytes that are no request", "garbage\r\n\r\n", ["202", "400"]],
    ["more than its Content-Length", "  }", ["202", "400"]],
    ["a head that is too long", `GET / HTTP/1.1\r\nX: ${"y".repeat(40_000)}\r\n\r\n`, ["202", "431"]],
    ["a body of broken chunks", `${head({ more: "Transfer-Encoding: chunked\r\n" })}zz\r\n`, ["202", "400"]],
    ["a tunnel", "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n", ["202", "400"]],
  ])("is answered with 202 when %s come behind it", async (name, more, wanted) => {
    const id = name.replaceAll(/\W/g, "-");
    const text = await talk(`${whole(id)}${more}`);
    expect(statuses(text)).toEqual(wanted);
    expect(await isStored(id)).toBe(true);
  });

  it("as the last of its connection is answered with 202, and what comes behind it is not carried out", async () => {
    const text = await talk(whole("last", { more: "Connection: close\r\n" }) + whole("behind-last"));
    expect([statuses(text), await isStored("last"), await isStored("behind-last")]).toEqual([["202"], true, false]);
  });
});

describe("a request behind an answer that ends the connection", () => {
  it.each<[string, Head]>([
    ["two hosts", { host: "Host: a\r\nHost: b\r\n" }],
    ["no host", { host: "" }],
    ["another version", { line: "POST /events HTTP/2.0" }],
    ["two hosts, at another path", { host: "Host: a\r\nHost: b\r\n", line: "POST /events?x HTTP/1.1" }],
  ])("%s: is not carried out", async (name, how) => {
    const id = name.replaceAll(/\W/g, "-");
    const text = await talk(whole(`${id}-refused`, how) + whole(`${id}-behind`) + whole(`${id}-behind2`));
    expect(statuses(text)).toEqual(["400"]);
    expect(text).toMatch(/^connection: close\r$/im);
    expect(text).toContain('"code":"VALIDATION_FAILED"');
    for (const more of ["refused", "behind", "behind2"]) expect(await isStored(`${id}-${more}`)).toBe(false);
  });

  it("chunks in HTTP/1.0: is not carried out, and neither are they", async () => {
    const line = "POST /events HTTP/1.0";
    const chunks = `${event("chunks").length.toString(16)}\r\n${event("chunks")}\r\n0\r\n\r\n`;
    const refused = head({ line, more: "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n" }) + chunks;
    expect(statuses(await talk(refused + whole("behind-chunks")))).toEqual(["400"]);
    expect([await isStored("chunks"), await isStored("behind-chunks")]).toEqual([false, false]);
  });

  it("a body that is too long: is not carried out", async () => {
    const refused = head({ more: "Content-Length: 9000000\r\n" }) + " ".repeat(9_000_000);
    const text = await talk(refused + whole("behind-long"));
    expect([statuses(text), await isStored("behind-long")]).toEqual([["413"], false]);
  });
});

describe("a request with an unknown expectation", () => {
  it("is refused with a problem document, and its connection goes on", async () => {
    const text = await talk(
      whole("expecting", { more: "Expect: everything\r\n" }) + whole("next", { more: "Connection: close\r\n" }),
    );
    expect(statuses(text)).toEqual(["417", "202"]);
    expect(text).toContain('{"type":"about:blank","title":"Expectation Failed","status":417}');
    expect(await isStored("expecting")).toBe(false);
  });
});
