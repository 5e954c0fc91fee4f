// The palette: any page, subscription, key or event, by the keyboard alone.
import { expect } from "vitest";
import { expectAccessible } from "./browser.ts";
import { type Key, stage } from "./stage.ts";

let sub: string;

async function prepare({ subscribe, publish }: Key): Promise<void> {
  sub = (await subscribe("/books", { description: "Books" })).id;
  for (const id of ["order-17-a", "order-17-b", "refund-3"])
    await publish(undefined, { type: "a:b", keyId: "key_2", id });
}

stage("the palette", { prepare }, (it) => {
  it("goes to a page, a subscription, a key and an event, with the keyboard alone", async ({ page, go }) => {
    await go("k/key_1/overview", "Overview");
    const { keyboard } = page;
    const dialog = page.getByRole("dialog", { name: "Go to" });
    const chosen = dialog.getByRole("option", { selected: true });
    const type = async (text: string): Promise<void> => {
      await keyboard.press("Control+k");
      await dialog.waitFor();
      await keyboard.type(text);
    };
    await type("");
    await dialog.getByRole("option", { name: /Books/ }).waitFor();
    await dialog.getByRole("option", { name: /key_2/ }).waitFor();
    await expectAccessible(page, "palette", false);
    // Round about: up from the first is the last, down again the first.
    expect(await chosen.textContent()).toContain("Overview");
    await keyboard.press("ArrowUp");
    expect(await chosen.textContent()).toContain("key_2");
    await keyboard.press("ArrowDown");
    await keyboard.press("ArrowDown");
    await keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Subscriptions" }).waitFor();
    expect(await dialog.count()).toBe(0);
    await type("books");
    await expect.poll(() => chosen.textContent()).toContain(sub);
    await keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Books" }).waitFor();
    await type("key_2");
    await keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    expect(page.url()).toContain("k/key_2/overview");
    await type("order-17");
    await dialog.getByRole("option", { name: /order-17-b/ }).waitFor();
    expect(await dialog.getByRole("option", { name: /^order-17-/ }).count()).toBe(2);
    await expectAccessible(page);
    await dialog.getByRole("combobox").fill("order-17-a");
    await expect.poll(() => chosen.textContent()).toContain("a:b");
    await keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "a:b" }).waitFor();
    expect(page.url()).toContain("order-17-a");
    await type("order-17");
    await dialog.getByRole("option", { name: /order-17-b/ }).waitFor();
    await dialog.getByRole("option", { name: /Ids that begin with order-17/ }).click();
    await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
    await expect.poll(() => page.locator("tbody tr").count()).toBe(2);
  });

  it("says when nothing is found, gives the focus back, and stays away from an open dialog", async ({ page, go }) => {
    await go("k/key_1/subscriptions", "Subscriptions");
    await page.getByRole("button", { name: "Create subscription" }).focus();
    await page.keyboard.press("Control+k");
    const dialog = page.getByRole("dialog", { name: "Go to" });
    await dialog.getByRole("combobox").fill("? ?");
    await dialog.getByText("Nothing here has these words.").waitFor();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Escape");
    await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Create subscription");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Create a subscription" }).waitFor();
    await page.keyboard.press("Control+k");
    expect(await page.getByRole("dialog").count()).toBe(1);
    expect(await dialog.count()).toBe(0);
  });
});
