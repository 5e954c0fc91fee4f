import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { LONGEST_SECRET, secretProblem } from "../../core/model/signing-secret.ts";
import { newSecret } from "../../core/signing/secret.ts";

const of = (bytes: Buffer): string => `whsec_${bytes.toString("base64")}`;
const good = randomBytes(32);

describe("a secret of one's own", () => {
  it.each([24, 25, 32, 33, 63, 64])("may have %i bytes", (size) => {
    const secret = of(randomBytes(size));
    expect(secretProblem(secret)).toBeUndefined();
    expect(secret.length).toBeLessThanOrEqual(LONGEST_SECRET);
  });

  it("may be one that a relay has made", () => {
    for (let n = 0; n < 1_000; n++) expect(secretProblem(newSecret())).toBeUndefined();
  });

  it.each([
    ["of 23 bytes", of(randomBytes(23)), /24 to 64 bytes .* holds 23/],
    ["of 65 bytes", of(randomBytes(65)), /24 to 64 bytes .* holds 65/],
    ["of a million characters", of(randomBytes(750_000)), /24 to 64 bytes/],
    ["that is empty", "whsec_", /holds 0/],
    ["of zeros", of(Buffer.alloc(32)), /easy to guess/],
    ["of a repeated word", of(Buffer.from("secret".repeat(8))), /easy to guess/],
    ["without its prefix", good.toString("base64"), /whsec_ and then base64/],
    ["with another prefix", `sk_live_${good.toString("base64")}`, /whsec_ and then base64/],
    ["in URL-safe base64", `whsec_${Buffer.alloc(32, 0xfb).toString("base64url")}`, /whsec_ and then base64/],
    ["without its padding", of(good).replaceAll("=", ""), /with its padding/],
    ["with spaces around it", ` ${of(good)}`, /whsec_ and then base64/],
    ["with a line end", `${of(good)}\n`, /whsec_ and then base64/],
    ["with bits that base64 leaves over", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGB==", /whsec_ and then base64/],
    ["of other letters", `whsec_${"ä".repeat(32)}`, /whsec_ and then base64/],
  ])("%s is judged with the fix, and not repeated", (_, secret, message) => {
    const problem = secretProblem(secret);
    expect(problem).toMatch(message);
    expect(problem).toContain("openssl rand -base64 32");
    if (secret.length > 20) expect(problem).not.toContain(secret.trim().slice(7, 20));
  });
});
