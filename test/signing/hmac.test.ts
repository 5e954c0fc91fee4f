import fc from "fast-check";
import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { HmacKey } from "../../core/signing/hmac.ts";

const bytes = (text: string): Buffer => Buffer.from(text, "latin1");

describe("HMAC-SHA256", () => {
  // RFC 4231 §4.2 to §4.8 (§4.6 truncates, which we do not)
  it.each([
    [Buffer.alloc(20, 0x0b), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"],
    [bytes("Jefe"), "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"],
    [Buffer.alloc(20, 0xaa), "\xdd".repeat(50), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"],
    [
      Buffer.alloc(131, 0xaa),
      "Test Using Larger Than Block-Size Key - Hash Key First",
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ],
  ])("is that of the RFC's test case with a key of %#", (key, message, expected) => {
    expect(new HmacKey(key).sign("", bytes(message), "hex")).toBe(expected);
  });

  it("is what Node's own Hmac says, for any key, head and body, short and long, one after the other", () => {
    const key = new HmacKey(bytes("a key that stays"));
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 200 }),
        fc.stringMatching(/^[ -~]{0,80}$/),
        fc.oneof(
          fc.uint8Array({ maxLength: 300 }),
          fc.integer({ min: 8_000, max: 9_000 }).map((n) => new Uint8Array(n).fill(n)),
        ),
        (other, head, body) => {
          for (const encoding of ["hex", "base64"] as const) {
            const wanted = (secret: Uint8Array): string =>
              createHmac("sha256", secret).update(head).update(body).digest(encoding);
            expect(new HmacKey(other).sign(head, body, encoding)).toBe(wanted(other));
            expect(key.sign(head, body, encoding)).toBe(wanted(bytes("a key that stays")));
          }
        },
      ),
    );
  });
});
