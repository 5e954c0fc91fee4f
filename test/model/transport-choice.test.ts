// The transport of a URL: by scheme, and by the name of a connection.
import { describe, expect, it } from "vitest";
import { chooseTransport, twice } from "../../core/model/transport-choice.ts";

const https = { schemes: ["https"] };
const bus = { schemes: ["nats"], name: "bus" };
const other = { schemes: ["nats"], name: "other" };

describe("the transport of a URL", () => {
  const of = chooseTransport([https, bus, other]);

  it("serves any host where it has no name", () => {
    expect(of("https://a.example/x")).toBe(https);
    expect(of("HTTPS://a.example/x")).toBe(https);
  });

  it("is the connection that the URL names", () => {
    expect(of("nats://bus/deposits.paid")).toBe(bus);
    expect(of("nats://other")).toBe(other);
  });

  it("is none where the config has no connection of that name", () => {
    expect(of("nats://third/x")).toBe('no connection in the config for nats: URLs is named "third"');
    for (const url of ["nats://", "nats:bus", "nats://user@bus/x", "nats://bus:4222/x", "nats://BUS/x"])
      expect(of(url), url).toMatch(/^no connection in the config/);
  });

  it("is none for a scheme that nothing serves", () => {
    expect(of("amqp://bus/x")).toBe("no transport in the config serves amqp: URLs");
    expect(of("no url")).toBe("no transport in the config serves : URLs");
  });

  it("is the one without a name for all names that are not taken", () => {
    const all = { schemes: ["nats"] };
    expect(chooseTransport([all, bus])("nats://bus/x")).toBe(bus);
    expect(chooseTransport([all, bus])("nats://10.0.0.1/x")).toBe(all);
  });

  it("must be claimed once", () => {
    expect(twice([https, bus, other])).toBeUndefined();
    expect(twice([bus, https, bus])).toBe("nats://bus");
    expect(twice([https, { schemes: ["http", "https"] }])).toBe("https:");
  });
});
