// What is wrong with the options of `https()` is a problem of the config: none is ignored in silence. Those of buses: bus-laws.
import { expect, it } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { https } from "../../plugins/transport/https.ts";

it("https takes every option that it documents, and names one that it does not have", () => {
  const options = { keepAliveMs: 0, maxIdle: 0, maxAgeMs: 1, http2: true, hosts: {}, proxy: "http://proxy:3128" };
  expect(https(options).problems).toEqual([]);
  expect(https({ ...options, bogus: 1 } as object).problems).toEqual([{ path: "bogus", message: "is not an option" }]);
});

it("https names wrong bounds of its connections", () => {
  const wrong = { keepAliveMs: "4s", maxIdle: -1, maxAgeMs: 0.5, http2: "yes" };
  expect(https(wrong as never).problems).toEqual([
    { path: "keepAliveMs", message: "must be a whole number, 0 or more" },
    { path: "maxIdle", message: "must be a whole number, 0 or more" },
    { path: "maxAgeMs", message: "must be a whole number, 0 or more" },
    { path: "http2", message: "must be true or false" },
  ]);
});

it("an AMQP transport needs the package that the AMQP source needs, and no other client is asked for", () => {
  const { peerDependencies, peerDependenciesMeta } = manifest;
  const clients = (names: object): readonly string[] => Object.keys(names).filter((name) => /amqp|rabbit/.test(name));
  expect(clients(peerDependencies)).toEqual(["amqplib"]);
  expect(clients(peerDependenciesMeta)).toEqual(["amqplib"]);
});
