/** Makes the plug-ins of the package itself, and knows them: they are called directly, without the wall. */
import { refuseOptions } from "../model/errors.ts";
import type { Plugin, PluginContext } from "./plugin.ts";

/** A set, and no member: a copy of a plug-in with something of the operator's in it is the operator's. */
const made = new WeakSet<object>();

/** Returns the plug-in as one of the package's own. Its `setup` refuses the options that its object says are wrong. */
export function own<One extends Plugin<string, unknown>>(plugin: One): One {
  async function setup(this: Pick<One, "problems"> | undefined, ctx: PluginContext): Promise<unknown> {
    refuseOptions((this ?? plugin).problems ?? []);
    return await plugin.setup(ctx);
  }
  const one = { ...plugin, setup };
  made.add(one);
  return one;
}

/** Returns whether the package's own factory has made it. */
export const isOwn = (plugin: object): boolean => made.has(plugin);
