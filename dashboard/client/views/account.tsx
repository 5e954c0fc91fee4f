/** Shows the account of the user, with its second factor. */
import { useCell } from "../state/cell.ts";
import { moment } from "../state/format.ts";
import { notice, PageFrame } from "../kit/elements.tsx";
import { hasAccounts } from "../state/page-facts.ts";
import { token } from "../state/token.ts";
import { Totp } from "../forms/totp.tsx";

export const AccountPage = () => {
  const now = useCell(token);
  if (now === undefined) return null;
  const owned = now.keys === "*" ? "every key" : now.keys.join(", ") || "none";
  return (
    <PageFrame title="Account">
      <div class="card">
        <dl>
          <div>
            <dt>Logged in as</dt>
            <dd>{now.sub}</dd>
          </div>
          <div>
            <dt>API keys</dt>
            <dd>{owned}</dd>
          </div>
          <div>
            <dt>May</dt>
            <dd>{now.access === "read" ? "look, and change nothing" : "manage"}</dd>
          </div>
          <div>
            <dt>Token</dt>
            <dd>
              {`until ${moment(new Date(now.expiresAt).toISOString())}${hasAccounts ? ", renewed by itself" : ""}`}
            </dd>
          </div>
        </dl>
      </div>
      {hasAccounts ? (
        <Totp on={now.amr.includes("mfa")} />
      ) : (
        notice("info", "Your token issuer manages second factors.")
      )}
    </PageFrame>
  );
};
