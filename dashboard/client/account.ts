/** Shows the account of the user, with its second factor. */
import { useCell } from "./cell.ts";
import { el, part } from "./dom.ts";
import { moment } from "./format.ts";
import { notice, PageFrame } from "./elements.ts";
import { hasAccounts } from "./page-facts.ts";
import { token } from "./token.ts";
import { Totp } from "./totp.ts";

export const AccountPage = part(() => {
  const now = useCell(token);
  if (now === undefined) return null;
  const owned = now.keys === "*" ? "every key" : now.keys.join(", ") || "none";
  return PageFrame({
    title: "Account",
    children: [
      el.div(
        { class: "card" },
        el.dl(
          null,
          el.div(null, el.dt(null, "Logged in as"), el.dd(null, now.sub)),
          el.div(null, el.dt(null, "API keys"), el.dd(null, owned)),
          el.div(null, el.dt(null, "May"), el.dd(null, now.access === "read" ? "look, and change nothing" : "manage")),
          el.div(
            null,
            el.dt(null, "Token"),
            el.dd(
              null,
              `until ${moment(new Date(now.expiresAt).toISOString())}${hasAccounts ? ", renewed by itself" : ""}`,
            ),
          ),
        ),
      ),
      hasAccounts ? Totp({ on: now.amr.includes("mfa") }) : notice("info", "Your token issuer manages second factors."),
    ],
  });
});
