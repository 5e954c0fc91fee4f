/** Makes a link to the portal of a key, to be handed to the customer, and ends all of them. */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { Dialog, Form } from "../kit/dialog.tsx";
import { Copy, notice, problem, showToast, useAction } from "../kit/elements.tsx";
import { Select } from "../kit/fields.tsx";
import { moment } from "../state/format.ts";

interface Made {
  readonly url: string;
  readonly expiresAt: string;
}

const ACCESS = [
  ["manage", "look, and change subscriptions"],
  ["read", "only look"],
] as const;
const LASTING = [
  ["900", "15 minutes"],
  ["3600", "1 hour"],
  ["28800", "8 hours"],
  ["86400", "1 day"],
] as const;

export const PortalLink = ({ keyId, close }: { readonly keyId: string; readonly close: () => void }) => {
  const [access, setAccess] = useState<string>("manage");
  const [lasts, setLasts] = useState<string>("3600");
  const [made, setMade] = useState<Made | undefined>(undefined);
  const route = path("/api-keys/{}/portal-links", [keyId]);
  const { run, busy, error } = useAction(async (_, what: "make" | "end") => {
    if (what === "make") {
      const body = { access, expiresInSeconds: Number(lasts) };
      return setMade((await ask<Made>("POST", route, { body })).data);
    }
    await ask("DELETE", route);
    setMade(undefined);
    showToast("All links of this key are ended");
  });
  return (
    <Dialog title="A link for your customer" close={close}>
      <Form submit={() => run(undefined, "make")}>
        <p>It opens a page with this key alone. Your customer needs no account.</p>
        <Select label="The customer may" value={access} options={ACCESS} change={setAccess} />
        <Select label="It opens for" value={lasts} options={LASTING} change={setLasts} />
        {made !== undefined &&
          notice(
            "warn",
            <p>{`Anyone who has it may use it, until ${moment(made.expiresAt)}. It is shown only this once.`}</p>,
            <div class="secret">
              <code class="wrap">{made.url}</code>
              <Copy text={made.url} what="the link" />
            </div>,
          )}
        {problem(error)}
        <div class="row end">
          <button type="button" disabled={busy} onClick={(event: Event) => run(event, "end")}>
            End all links
          </button>
          <button type="submit" class="main" disabled={busy}>
            {made === undefined ? "Make the link" : "Make another"}
          </button>
        </div>
      </Form>
    </Dialog>
  );
};
