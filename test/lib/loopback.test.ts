import { expect, it } from "vitest";
import { isLoopbackHost } from "../../core/lib/loopback.ts";

it.each([
  ["http://localhost/", true],
  ["http://relay.localhost:8080/", true],
  ["http://127.0.0.1/", true],
  ["http://127.1/", true],
  ["http://[::1]/", true],
  ["http://127.evil.example/", false],
  ["http://127.0.0.1.evil.example/", false],
  ["http://localhost.evil.example/", false],
  ["http://10.0.0.1/", false],
])("%s is this machine: %s", (url, expected) => {
  expect(isLoopbackHost(new URL(url).hostname)).toBe(expected);
});
