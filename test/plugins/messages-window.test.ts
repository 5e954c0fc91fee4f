// A source reads fewer messages at once where they are large, so that a window of thousands of them fits into memory.
import { expect, it } from "vitest";
import { createWindow } from "../../plugins/source/messages/window.ts";

const messages = (count: number, bytes: number) =>
  Array.from({ length: count }, () => ({ payload: "x".repeat(bytes) }));
const MB = 1024 * 1024;

it("begins with few messages, as nobody knows yet how large they are", () => {
  expect(createWindow(2_000).room()).toBe(64);
  expect(createWindow(10).room()).toBe(10);
});

it("has room for as many as it may once they are known to be small, and gives the room back", () => {
  const window = createWindow(2_000);
  const first = messages(64, 600);
  window.add(first);
  expect(window.room()).toBeGreaterThan(400);
  const more = messages(400, 600);
  window.add(more);
  expect(window.room()).toBe(2_000 - 464);
  for (const one of [...first, ...more]) window.remove(one);
  expect(window.room()).toBe(2_000);
  window.add(messages(2_000, 600));
  expect(window.room()).toBe(0);
});

it("has room for few large ones, and for one at least while there is any", () => {
  const window = createWindow(2_000);
  const large = messages(10, 4 * MB);
  window.add(large);
  expect(window.room()).toBeLessThan(24);
  window.add(messages(1, 23 * MB));
  expect(window.room()).toBe(1);
  window.add(messages(1, 1 * MB));
  expect(window.room()).toBe(0);
  for (const one of large) window.remove(one);
  expect(window.room()).toBeGreaterThan(0);
});
