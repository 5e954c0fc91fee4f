// What the relay's page shows of webhooks that come in.
import { request } from "undici";
import { expect } from "vitest";
import { github, webhooks } from "../../plugins/source/webhooks.ts";
import { startRelay } from "../support/relay.ts";
import { hexOf, SECRET } from "../support/webhooks.ts";
import { expectAccessible } from "./browser.ts";
import { stage } from "./stage.ts";

const start = () =>
  startRelay({
    sources: [webhooks([{ path: "/in/github", keyId: "code", verify: github({ secret: SECRET }) }])],
  });

stage("the relay's page beside webhooks that come in", { start }, (it) => {
  it("shows each path with what was taken and why the last one was refused", async ({ page, relay, go }) => {
    const post = async (body: string, secret: string): Promise<number> => {
      const headers = { "x-hub-signature-256": `sha256=${hexOf(secret, body)}`, "x-github-event": "push" };
      const answer = await request(`${relay.url}/in/github`, { method: "POST", body, headers });
      await answer.body.dump();
      return answer.statusCode;
    };
    expect([await post("{}", SECRET), await post("{}", "another"), await post("[]", SECRET)]).toEqual([200, 401, 200]);
    await go("relay", "The relay");
    const card = page.locator("section.card").filter({ hasText: "/in/github" });
    await card.waitFor();
    const shown = await card.innerText();
    for (const line of [
      /Key\s+code/,
      /Verified by\s+github/,
      /Accepted\s+2/,
      /Refused\s+1/,
      /Last refusal\s+the signature is wrong/,
    ])
      expect(shown).toMatch(line);
    await expectAccessible(page, "relay-incoming");
  });
});
