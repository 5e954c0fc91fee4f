/** The guard says of every URL in the shared list what the list says. */
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { connect as connectTcp } from "node:net";
import { describe, expect, it } from "vitest";
import { createGuard } from "../../core/guard/index.ts";
import type { Guard } from "../../core/guard/index.ts";
import { ConnectError } from "../../core/model/errors.ts";
import { testClock } from "../support/clock.ts";
import { urlVectors, type UrlVector } from "../support/vectors.ts";

/** Dialled addresses go to a door on loopback that is closed at once; the list of them is what counts. */
const guardOf = (vector: UrlVector, dialled: string[]): Guard => {
  let asked = 0;
  return createGuard({
    allow: [],
    ports: vector.config?.ports ?? [443],
    clock: testClock(),
    ownAddresses: () => vector.own_addresses ?? [],
    resolver: () => {
      if (vector.dns_error !== undefined)
        return Promise.reject(new ConnectError("dns", "no answer", `DNS_${vector.dns_error}`));
      const answers = vector.resolve_sequence ?? [vector.resolves_to ?? []];
      return Promise.resolve(answers[Math.min(asked++, answers.length - 1)] ?? []);
    },
    dial: (address) => {
      dialled.push(address);
      return connectTcp({ host: "127.0.0.1", port: 1 });
    },
  });
};

const never = new AbortController().signal;
const named = (keep: (vector: UrlVector) => boolean): [string, UrlVector][] =>
  urlVectors.filter(keep).map((vector) => [`${vector.id} ${vector.why}`, vector]);

const text = named(({ stage }) => stage === "register");
const resolved = named(({ stage, dns_error }) => stage === "resolve" && dns_error === undefined);
const unanswered = named(({ dns_error }) => dns_error !== undefined);
const rebound = named(({ stage, resolve_sequence }) => stage === "connect" && resolve_sequence !== undefined);
const self = named(({ own_addresses }) => own_addresses !== undefined);
const lying = named(({ peer_address }) => peer_address !== undefined);
const passing = named(({ stage }) => stage === "response");

it("every vector of the list is run by one of the groups below", () => {
  const groups = [text, resolved, unanswered, rebound, self, lying, passing];
  expect(
    groups
      .flat()
      .map(([, { id }]) => id)
      .toSorted(),
  ).toEqual(urlVectors.map(({ id }) => id).toSorted());
  expect(urlVectors.length).toBeGreaterThan(140);
});

/** Where the connector stops: `stage:reason`. */
const connecting = async (guard: Guard, { url }: UrlVector): Promise<string> =>
  await guard.connect({ hostname: new URL(url).hostname, port: 443 }, never).then(
    () => "connected",
    (error: unknown) => (error instanceof ConnectError ? `${error.stage}:${error.reason}` : String(error)),
  );

describe("a URL that is refused by its text alone", () => {
  it.each(text)("%s", async (_, vector) => {
    const guard = guardOf(vector, []);
    expect(guard.checkText(vector.url)).toMatchObject({ ok: false, reason: vector.code });
    expect(await guard.register(vector.url)).toMatchObject({ ok: false, reason: vector.code });
  });
});

describe("a URL that is refused for what it resolves to, at registration and as a connection", () => {
  it.each([...resolved, ...self])("%s", async (_, vector) => {
    const dialled: string[] = [];
    const guard = guardOf(vector, dialled);
    expect(guard.checkText(vector.url).ok).toBe(true);
    expect(await guard.register(vector.url)).toMatchObject({ ok: false, reason: vector.code });
    expect(await connecting(guard, vector)).toBe(`guard:${vector.code}`);
    expect(dialled).toEqual([]);
  });
});

describe("a name that does not answer is accepted, and fails as a connection", () => {
  it.each(unanswered)("%s", async (_, vector) => {
    const guard = guardOf(vector, []);
    expect(await guard.register(vector.url)).toMatchObject({ ok: true });
    expect(await connecting(guard, vector)).toBe(`dns:${vector.code}`);
  });
});

describe("a name that leads elsewhere after registration is refused as a connection", () => {
  it.each(rebound)("%s", async (_, vector) => {
    const dialled: string[] = [];
    const guard = guardOf(vector, dialled);
    expect(await guard.register(vector.url)).toMatchObject({ ok: true });
    expect(await connecting(guard, vector)).toBe(`guard:${vector.code}`);
    expect(dialled).toEqual([]);
  });
});

describe("a peer that is not who was dialled is refused before a byte is sent to it", () => {
  it.each(lying)("%s", async (_, vector) => {
    let bytes = 0;
    const server = createServer((socket) => void socket.on("data", (chunk) => (bytes += chunk.length)).resume());
    await new Promise<void>((resolve) => void server.listen(0, vector.peer_address, resolve));
    const ended = new Promise<void>((resolve) => void server.once("connection", (one) => one.once("close", resolve)));
    const guard = createGuard({
      allow: [],
      ports: [443],
      clock: testClock(),
      resolver: () => Promise.resolve(vector.resolves_to ?? []),
      dial: () => connectTcp((server.address() as AddressInfo).port, vector.peer_address),
    });
    expect(await connecting(guard, vector)).toBe(`guard:${vector.code}`);
    await ended;
    await new Promise((resolve) => server.close(resolve));
    expect(bytes).toBe(0);
  });
});

describe("a URL that passes, and of which only a checked address is dialled", () => {
  // The tests of the transport try the answer to a redirect.
  it.each(passing)("%s", async (_, vector) => {
    const dialled: string[] = [];
    const guard = guardOf(vector, dialled);
    const { href, hostname } = new URL(vector.url);
    expect(await guard.register(vector.url)).toEqual({ ok: true, href, hostname, port: 443 });
    // The door behind the dialled address is a closed one: to reach it is all that is asked here.
    expect(await connecting(guard, vector)).toBe("connect:ECONNREFUSED");
    const expected = vector.resolve_sequence?.at(-1) ?? vector.resolves_to ?? [hostname.replaceAll(/[[\]]/g, "")];
    expect(dialled.length).toBeGreaterThan(0);
    expect(expected).toEqual(expect.arrayContaining(dialled));
  });
});
