import fc from "fast-check";
import { expect, it } from "vitest";
import { LinkedList, type Link } from "../../core/model/linked-list.ts";

it("a chain is a list to whose end things come, and from whose midst they go", () => {
  const step = fc.oneof(fc.constant("add" as const), fc.constant("first" as const), fc.nat({ max: 20 }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const chain = new LinkedList<{ readonly n: number }>();
      const all: { readonly of: { readonly n: number }; readonly link: Link<{ readonly n: number }> }[] = [];
      const gone: Link<{ readonly n: number }>[] = [];
      for (const [n, what] of steps.entries()) {
        if (what === "add") all.push({ of: { n }, link: chain.add({ n }) });
        else if (what === "first") expect(chain.takeFirst()).toEqual(all.shift()?.of);
        else if (what < all.length) {
          for (const { link } of all.splice(what, 1)) {
            chain.remove(link);
            gone.push(link);
          }
        }
        expect([...chain]).toEqual(all.map(({ of }) => of));
        expect(chain.first).toEqual(all[0]?.of);
        for (const link of gone) {
          chain.remove(link);
          expect(link).toEqual({ of: undefined, before: undefined, behind: undefined });
        }
      }
    }),
  );
});
