/** Certificates of one's own satisfy every TLS client, and an authority can be opened again. */
import { X509Certificate } from "node:crypto";
import { expect, it } from "vitest";
import { makeAuthority, openAuthority } from "../../cli/support/certificates.ts";

const now = Date.UTC(2026, 10, 20);

it("an authority issues certificates for names and addresses, signed by itself", async () => {
  const authority = await makeAuthority(now, "Some CA");
  const root = new X509Certificate(authority.ca);
  expect(root).toMatchObject({ subject: "CN=Some CA", ca: true });
  const leaf = new X509Certificate((await authority.issue(["hooks.example.org", "127.0.0.1", "::1"])).cert);
  expect(leaf.ca).toBe(false);
  expect(leaf.checkIssued(root) && leaf.verify(root.publicKey)).toBe(true);
  expect(leaf.checkHost("hooks.example.org")).toBe("hooks.example.org");
  expect(leaf.checkHost("other.example.org")).toBeUndefined();
  expect(leaf.checkIP("127.0.0.1")).toBe("127.0.0.1");
  expect(leaf.checkIP("::1")).toBe("::1");
  expect(leaf.validFromDate.getTime()).toBe(now - 86_400_000);
  expect(leaf.validToDate.getTime()).toBe(now + 30 * 86_400_000);
});

it("an authority that was kept as text goes on issuing", async () => {
  const first = await makeAuthority(now);
  const again = await openAuthority(first.ca, first.caKey, now);
  const leaf = new X509Certificate((await again.issue(["localhost"], { until: now + 1_000 })).cert);
  expect(leaf.verify(new X509Certificate(first.ca).publicKey)).toBe(true);
  expect(leaf.validToDate.getTime()).toBe(now + 1_000);
});

it("two certificates have their own keys and serial numbers", async () => {
  const authority = await makeAuthority(now);
  const [one, two] = await Promise.all([authority.issue(["a.example.org"]), authority.issue(["a.example.org"])]);
  expect(one.key).not.toBe(two.key);
  expect(new X509Certificate(one.cert).serialNumber).not.toBe(new X509Certificate(two.cert).serialNumber);
});
