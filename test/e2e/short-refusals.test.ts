/** A body that names its mistakes at length is refused in a short answer, and holds up nobody. */
import { describe, expect, it } from "vitest";
import { testAuthority } from "../support/certificates.ts";
import { kept } from "../support/kept.ts";
import { startRelay } from "../support/relay.ts";

const relay = kept(await startRelay());

/** As much as a management request may bring. */
const BYTES = 65_536;
const LETTERS = Array.from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
const TWICE = LETTERS.flatMap((a) => LETTERS.map((b) => `"${a}${b}":1,"${a}${b}":1`))
  .slice(0, 2_300)
  .join(",");
const PROTO = '{"__proto__":0},'.repeat(2_000).slice(0, -1);

describe("a management body whose names are as long as they may be", () => {
  it.each([
    ["gives thousands of names twice", `{"${"P".repeat(BYTES - TWICE.length - 12)}":{${TWICE}}}`],
    ["has thousands of names that cannot be", `{"${"P".repeat(BYTES - PROTO.length - 12)}":[${PROTO}]}`],
  ])("and that %s", async (_, body) => {
    const from = process.cpuUsage();
    const { status, text, json } = await relay.call("POST", "/api-keys/key_1/webhooks/sub_none/filter/test", { body });
    const { user, system } = process.cpuUsage(from);
    expect(status).toBe(400);
    expect(json.errors.length).toBeLessThanOrEqual(101);
    expect(text.length).toBeLessThan(100_000);
    // It took 16 s and 1 s of the relay's one loop; this leaves room for all else that the process does.
    expect((user + system) / 1_000).toBeLessThan(800);
  });

  it("and a batch of wrong events under one long name", async () => {
    const wrong = Array.from({ length: 1_000 }, () => ({ type: "a:b", keyId: "key_1", [`n${"x".repeat(5_000)}`]: 1 }));
    const { status, text } = await relay.publish(wrong as never);
    expect(status).toBe(400);
    expect(text.length).toBeLessThan(100_000);
  });
});

describe("a client certificate", () => {
  it("whose end is no date is refused before anything is stored", async () => {
    const { cert, key } = await (await testAuthority()).issue(["client"], {}, "client");
    const der = Buffer.from(cert.replaceAll(/-----[^-]+-----|\s/g, ""), "base64");
    // The second time is `notAfter`: month 13. Nobody checks the signature of a client's own certificate here.
    const times = Buffer.from([0x17, 0x0d]);
    der.write("271332256199Z", der.indexOf(times, der.indexOf(times) + 2) + 2, "latin1");
    const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
    const broken = `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
    const body = { url: "https://127.0.0.1:9/", events: ["a"], clientCertificate: { cert: broken, key } };
    const { status, json } = await relay.call("POST", "/api-keys/key_1/webhooks", { body });
    expect(status).toBe(400);
    expect(json.errors).toEqual([expect.objectContaining({ path: "clientCertificate.cert" })]);
    expect((await relay.call("GET", "/api-keys/key_1/webhooks")).json.data).toEqual([]);
  });
});
