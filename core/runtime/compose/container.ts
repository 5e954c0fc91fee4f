/**
 * The container that composition builds a relay's parts in: tsyringe behind names that have types. It never leaves this
 * folder; the rest of the code takes the few parts that it needs as plain values.
 */
import "reflect-metadata";
import { container, instanceCachingFactory } from "tsyringe";

/** Holds parts by the names of `Parts`. */
export interface Container<Parts extends object> {
  /** Puts a part in that exists already. */
  put<Name extends keyof Parts>(name: Name, part: Parts[Name]): void;
  /**
   * Says how to make a part from others; it is made once. Only parts that are registered already may be needed, so a
   * composition reads downwards and has no circle.
   * @throws Error naming a needed part that is not registered yet
   */
  make<Name extends keyof Parts, Need extends keyof Parts>(
    name: Name,
    needs: readonly Need[],
    build: (parts: Pick<Parts, Need>) => Parts[Name],
  ): void;
  /** Every part that was registered, made. */
  parts(): Parts;
}

export function createContainer<Parts extends object>(): Container<Parts> {
  type Name = keyof Parts & string;
  const registry = container.createChildContainer();
  const names: Name[] = [];

  function pick<Need extends keyof Parts>(needs: readonly Need[]): Pick<Parts, Need> {
    return Object.fromEntries(needs.map((name) => [name, registry.resolve(name as Name)])) as Pick<Parts, Need>;
  }

  return {
    put(name, part) {
      names.push(name as Name);
      // A factory, for tsyringe takes no value that is undefined.
      registry.register(name as Name, { useFactory: () => part });
    },
    make(name, needs, build) {
      const missing = needs.find((need) => !registry.isRegistered(need as Name));
      if (missing !== undefined) {
        throw new Error(`${String(name)} needs ${String(missing)}, which is not registered before it`);
      }
      names.push(name as Name);
      registry.register(name as Name, { useFactory: instanceCachingFactory(() => build(pick(needs))) });
    },
    parts: () => pick(names) as Parts,
  };
}
