/** Names are resolved by DNS alone, both families, without one name holding up another. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { dnsResolver, hostsFile } from "../../core/guard/resolve.ts";
import { testClock } from "../support/clock.ts";
import { startNameServer } from "../support/nameserver.ts";
import type { Answer } from "../support/nameserver.ts";

const never = new AbortController().signal;

const asking = async (answers: Readonly<Record<string, Answer>>) => {
  const server = await startNameServer((name) => answers[name] ?? "NXDOMAIN");
  return { server, resolve: dnsResolver(testClock(), [server.address]) };
};

describe("DNS", () => {
  it("gives both families of a name", async () => {
    const { server, resolve } = await asking({
      "dual.example.com": ["93.184.215.14", "93.184.215.15", "2606:2800::1"],
    });
    await using _ = server;
    const found = await resolve("dual.example.com", never);
    expect(found).toEqual(["93.184.215.14", "93.184.215.15", "2606:2800::1"]);
  });

  it("gives the one family that a name has", async () => {
    const { server, resolve } = await asking({ "four.example.com": ["9.9.9.9"], "six.example.com": ["2606:2800::1"] });
    await using _ = server;
    expect(await resolve("four.example.com", never)).toEqual(["9.9.9.9"]);
    expect(await resolve("six.example.com", never)).toEqual(["2606:2800::1"]);
  });

  it("says when a name has no address", async () => {
    const { server, resolve } = await asking({ "empty.example.com": [] });
    await using _ = server;
    for (const name of ["gone.example.com", "empty.example.com"])
      await expect(resolve(name, never)).rejects.toMatchObject({
        stage: "dns",
        message: `${name} has no address: see that the name is right, and that the name servers of this machine know it`,
      });
  });

  it("says when the server fails", async () => {
    const { server, resolve } = await asking({ "sf.example.com": "SERVFAIL" });
    await using _ = server;
    await expect(resolve("sf.example.com", never)).rejects.toMatchObject({ stage: "dns", reason: "DNS_SERVFAIL" });
  });

  it("says so also when the other family has no such name, because that may be no more than half of the truth", async () => {
    await using server = await startNameServer((_, wants6) => (wants6 ? "SERVFAIL" : "NXDOMAIN"));
    const resolve = dnsResolver(testClock(), [server.address]);
    await expect(resolve("half.example.com", never)).rejects.toMatchObject({ reason: "DNS_SERVFAIL" });
  });

  it("ends with the caller's signal, and does not keep others waiting for a silent name", async () => {
    const { server, resolve } = await asking({ "dead.example.com": "silence", "live.example.com": ["9.9.9.9"] });
    await using _ = server;
    const control = new AbortController();
    const dead = Array.from({ length: 20 }, (_one, i) =>
      resolve(`${i % 2 ? "" : "x."}dead.example.com`, control.signal),
    );
    expect(await resolve("live.example.com", never)).toEqual(["9.9.9.9"]);
    const ended = Promise.allSettled(dead);
    control.abort(new Error("given up"));
    const outcomes = await ended;
    // The half that is no such name may have been answered already.
    expect(outcomes.filter(({ status }) => status === "rejected")).toHaveLength(20);
    await expect(dead[1]).rejects.toThrow("given up");
  });

  it("asks once for a name that many want at the same time, and again the next time", async () => {
    const { server, resolve } = await asking({ "hot.example.com": ["9.9.9.9"] });
    await using _ = server;
    await Promise.all(Array.from({ length: 16 }, () => resolve("hot.example.com", never)));
    expect(server.asked).toHaveLength(2);
    await resolve("hot.example.com", never);
    expect(server.asked).toHaveLength(4);
  });

  it("never adds a search domain", async () => {
    const { server, resolve } = await asking({});
    await using _ = server;
    await expect(resolve("gone.example.com", never)).rejects.toThrow();
    expect(new Set(server.asked)).toEqual(new Set(["gone.example.com"]));
  });
});

describe("the hosts file", () => {
  it("is read name by name, without comments and broken lines", async () => {
    const folder = await mkdtemp(join(tmpdir(), "hosts-"));
    const path = join(folder, "hosts");
    const lines = [
      "# 1.1.1.1 hooks.corp.lan",
      "10.2.0.9\thooks.corp.lan Other # note",
      "fd00::9 hooks.corp.lan",
      "x hooks.corp.lan",
    ];
    await writeFile(path, lines.join("\r\n"));
    expect(await hostsFile("hooks.corp.lan", path)).toEqual(["10.2.0.9", "fd00::9"]);
    expect(await hostsFile("other", path)).toEqual(["10.2.0.9"]);
    expect(await hostsFile("corp.lan", path)).toEqual([]);
    await rm(folder, { recursive: true });
  });

  it("is not missed, and localhost is loopback without it", async () => {
    expect(await hostsFile("hooks.corp.lan", "/nowhere/hosts")).toEqual([]);
    expect(await hostsFile("localhost", "/nowhere/hosts")).toEqual(["127.0.0.1", "::1"]);
  });
});
