/** Shows how a receiver verifies a delivery, in the languages of the guide. The code is loaded when it is opened. */
import { useState } from "preact/hooks";
import { Copy, problem, useAction } from "./elements.tsx";
import { Select } from "./fields.tsx";

type Receivers = (typeof import("relay:receivers"))["receivers"];

export const VerifyCode = () => {
  const [all, setAll] = useState<Receivers>([]);
  const [chosen, choose] = useState("Node");
  const { run, error } = useAction(async () => setAll((await import("relay:receivers")).receivers));
  const one = all.find(({ language }) => language === chosen);
  return (
    <details
      class="verify"
      onToggle={({ currentTarget }: { readonly currentTarget: HTMLDetailsElement }) => {
        if (currentTarget.open && all.length === 0) run();
      }}
    >
      <summary>Code to verify a delivery</summary>
      {problem(error, run)}
      {one !== undefined && (
        <div class="request">
          <div class="row">
            <Select
              label="Language"
              bare
              value={chosen}
              options={all.map(({ language }) => [language, language] as const)}
              change={choose}
            />
            <Copy key={chosen} text={one.code} what="the code" named />
          </div>
          <p class="quiet">It takes the raw body, the headers by their names in lower case, and the secret.</p>
          <pre tabIndex={0}>{one.code}</pre>
        </div>
      )}
    </details>
  );
};
