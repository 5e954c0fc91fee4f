// The stage of the page's tests: a relay, a receiver, and for each test a page, on which nothing may have complained in the end.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { startReceiver, type Receiver, type ReceiverOptions } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { fill, firstSession, PASSWORD, setUp, useBrowser, type Look, type Screen, type State } from "./browser.ts";

type Config = NonNullable<Parameters<typeof startRelay>[0]>;

/** An API key of a relay, and what happens on it. */
export interface Key {
  readonly relay: TestRelay;
  readonly receiver: Receiver;
  readonly keyId: string;
  /** Makes a subscription to a path of the receiver. */
  subscribe(path?: string, more?: object, key?: string): Promise<{ readonly id: string; readonly secret: string }>;
  /** Publishes an event, and waits until the API says that it has the status. */
  publish(status?: string, more?: Event): Promise<string>;
  hasStatus(id: string, status: string): Promise<void>;
}

/** Given to a test: a page, a relay, a receiver, and an API key that no other test uses. */
export interface Scene extends Key, Omit<Screen, typeof Symbol.asyncDispose> {
  /** Another page, of the same person where one is logged in from the beginning. */
  open(look?: Look): Promise<Screen>;
}

interface Event {
  readonly type?: string;
  /** JSON */
  readonly data?: string;
  readonly keyId?: string;
  readonly id?: string | undefined;
}

interface StageOptions {
  readonly receiver?: ReceiverOptions;
  /** @default a relay with no config */
  readonly start?: () => Promise<TestRelay>;
  /** Called before the file's tests, with `key_1`. */
  readonly prepare?: (key: Key) => Promise<unknown>;
}

type Run<T> = (title: string, run: (given: T) => Promise<void>, timeoutMs?: number) => void;

type Open = ReturnType<typeof useBrowser>["open"];
function inChromium(what: string, tests: (open: Open) => void): void {
  const { missing, open } = useBrowser();
  describe.skipIf(missing !== undefined)(`${what} (${missing ?? "in Chromium"})`, () => tests(open));
}
let keys = 0;

/** Describes what the page does on a relay that the tests share, for somebody who is logged in. */
export function stage(
  what: string,
  { receiver: answers, start = startRelay, prepare }: StageOptions,
  tests: (it: Run<Scene>) => void,
): void {
  const kept = new AsyncDisposableStack();
  let relay: TestRelay;
  let receiver: Receiver;
  let state: State;
  inChromium(what, (open) => {
    beforeAll(async () => {
      receiver = kept.use(await startReceiver(answers));
      relay = kept.use(await start());
      state = await firstSession(relay);
      await prepare?.(keyOf(relay, receiver, "key_1"));
    }, 240_000);
    afterAll(() => kept.disposeAsync());
    tests((title, run, timeoutMs) =>
      test(
        title,
        async () => {
          await using screens = new AsyncDisposableStack();
          const scene = await sceneOf(open, screens, relay, receiver, state);
          await run(scene);
          expect(scene.complaints).toEqual([]);
        },
        timeoutMs,
      ),
    );
  });
}

interface OwnScene extends Scene {
  readonly screen: Screen;
  /** Moves the clock of the relay. */
  ahead(ms: number): void;
}

interface StartOptions {
  /** Somebody makes the first account. @default true */
  readonly account?: boolean;
  readonly receiver?: ReceiverOptions;
  /** The browser complains, as it should. */
  readonly complains?: true;
}

/** Starts the test's own relay, with a config. */
export type Start = (config?: Config, options?: StartOptions) => Promise<OwnScene>;

/** Describes what the page does where each test has a relay of its own. Those that mostly wait do it together. */
export function alone(what: string, tests: (it: Run<Start>, together: Run<Start>) => void): void {
  const play = async (open: Open, run: (start: Start) => Promise<void>): Promise<void> => {
    await using own = new AsyncDisposableStack();
    const all: string[][] = [];
    await run(async (config = {}, { account = true, receiver: answers, complains } = {}) => {
      let aheadMs = 0;
      const receiver = own.use(await startReceiver(answers));
      const clock = { ...systemClock(), now: () => Date.now() + aheadMs };
      const relay = own.use(await startRelay(config, undefined, clock));
      const scene = await sceneOf(open, own, relay, receiver);
      if (account) await setUp(relay, scene.screen);
      if (!complains) all.push(scene.complaints as string[]);
      return { ...scene, ahead: (ms) => (aheadMs = ms) };
    });
    expect(all.flat()).toEqual([]);
  };
  inChromium(what, (open) => {
    const by =
      (it: Run<unknown>): Run<Start> =>
      (title, run, timeoutMs) =>
        it(title, () => play(open, run), timeoutMs);
    tests(by(test), by(test.concurrent));
  });
}

async function sceneOf(
  opens: Open,
  screens: AsyncDisposableStack,
  relay: TestRelay,
  receiver: Receiver,
  state?: State,
) {
  const open: Scene["open"] = async (look) => screens.use(await opens(relay, look, state));
  const screen = await open();
  const { page, go, limited, complaints } = screen;
  return { screen, page, go, limited, complaints, open, ...keyOf(relay, receiver, `key_own_${++keys}`) };
}

function keyOf(relay: TestRelay, receiver: Receiver, keyId: string): Key {
  const hasStatus = (id: string, status: string, key = keyId): Promise<void> =>
    expect
      .poll(async () => (await relay.call("GET", `/api-keys/${key}/events/${id}`)).json.data.status, { interval: 20 })
      .toBe(status);
  const subscribe: Scene["subscribe"] = async (path = "/", more = {}, key = keyId) => {
    const body = { url: receiver.url(path), events: ["*"], ...more };
    const made = await relay.call("POST", `/api-keys/${key}/webhooks`, { body });
    expect(made.status, made.text).toBe(201);
    return made.json.data;
  };
  const publish: Scene["publish"] = async (status, { data = "1", ...more } = {}) => {
    const event = { type: "deposit:paid", keyId, ...more };
    const answer = await relay.publish(`${JSON.stringify(event).slice(0, -1)},"data":${data}}`);
    expect(answer.status, answer.text).toBe(202);
    const { id } = answer.json.data;
    if (status !== undefined) await hasStatus(id, status, event.keyId);
    return id;
  };
  return { relay, receiver, keyId, subscribe, publish, hasStatus };
}

/** Adds a second person, who may manage some keys. */
export async function addGrace(relay: TestRelay, keys: readonly string[] = ["key_1"]): Promise<void> {
  const body = { username: "grace", password: PASSWORD, keys, access: "manage" };
  const added = await relay.call("POST", "/auth/users", { body, token: await relay.token({ mfa: true }) });
  expect(added.status, added.text).toBe(201);
}

/** Opens the form for a subscription to a URL, of all deposits; it is not sent yet. */
export async function typeSubscription(page: Page, url: string): Promise<void> {
  await page.getByRole("button", { name: "Create subscription" }).first().click();
  await fill(page, { URL: url, "Add an event name or pattern": "deposit:*" });
  await page.keyboard.press("Enter");
}
