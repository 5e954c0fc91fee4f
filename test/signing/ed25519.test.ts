/** Ed25519 signatures: made beside the HMAC ones, verified with public keys alone, also while the key changes. */
import { describe, expect, it } from "vitest";
import { ed25519Key, type Ed25519Key } from "../../core/signing/ed25519.ts";
import { signedHeaders } from "../../core/signing/headers.ts";
import { newSecret, signingKey } from "../../core/signing/secret.ts";
import { verifyEd25519, verifyHex, verifyStandard } from "../../core/signing/verify.ts";

const NOW = 1_767_225_600_000;
const secret = newSecret();
const [one, two] = [ed25519Key(Buffer.alloc(32, 1)), ed25519Key(Buffer.alloc(32, 2))];
const body = Buffer.from('{"a":1}');
const event = { eventId: "evt_1", type: "a:b", body, attempt: 1, cycle: 0, traceparent: undefined };
const headersOf = (keys?: readonly Ed25519Key[]) =>
  signedHeaders(event as never, [signingKey(secret)], NOW, undefined, { ed25519: keys });

describe("an Ed25519 signature", () => {
  it("stands beside those of the secret, which stay as they are", () => {
    const [plain, signed] = [headersOf(), headersOf([one])];
    expect(signed["webhook-signature"]).toMatch(
      new RegExp(`^${plain["webhook-signature"]?.replaceAll(/[+/=]/g, "\\$&")} v1a,[A-Za-z0-9+/]{86}==$`),
    );
    expect({ ...signed, "webhook-signature": "" }).toEqual({ ...plain, "webhook-signature": "" });
    expect([verifyStandard(body, signed, secret, NOW), verifyHex(body, signed, secret)]).toEqual([true, true]);
    expect(verifyEd25519(body, signed, one.publicText, NOW)).toBe(true);
    expect(verifyEd25519(body, plain, one.publicText, NOW)).toBe(false);
  });

  it("is one of RFC 8032: known seed, known public key", () => {
    const seed = Buffer.from("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "hex");
    const key = Buffer.from("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "hex");
    expect(ed25519Key(seed).publicText).toBe(`whpk_${key.toString("base64")}`);
    expect(ed25519Key(seed).jwk.x).toBe(key.toString("base64url"));
  });

  it("of each of two keys is right by either public key, and by a list of both", () => {
    const both = headersOf([two, one]);
    for (const keys of [one.publicText, two.publicText, [one.publicText, two.publicText]])
      expect(verifyEd25519(body, both, keys, NOW)).toBe(true);
    expect(verifyEd25519(body, headersOf([two]), one.publicText, NOW)).toBe(false);
    expect(verifyEd25519(body, headersOf([two]), [one.publicText, two.publicText], NOW)).toBe(true);
  });

  it("is wrong for another body, id or time, and for what is no key or signature", () => {
    const headers = headersOf([one]);
    const key = one.publicText;
    expect(verifyEd25519(Buffer.from('{"a":2}'), headers, key, NOW)).toBe(false);
    expect(verifyEd25519(body, { ...headers, "webhook-id": "evt_2" }, key, NOW)).toBe(false);
    expect(verifyEd25519(body, { ...headers, "webhook-timestamp": "1767225601" }, key, NOW)).toBe(false);
    expect(verifyEd25519(body, headers, key, NOW + 301_000)).toBe(false);
    for (const wrong of ["", "whpk_", "whpk_AAAA", []]) expect(verifyEd25519(body, headers, wrong, NOW)).toBe(false);
    for (const text of ["", "v1a,", "v1a,AAAA", headers["webhook-signature"]?.replace(" v1a,", " v1,")])
      expect(verifyEd25519(body, { ...headers, "webhook-signature": text }, key, NOW)).toBe(false);
  });
});
