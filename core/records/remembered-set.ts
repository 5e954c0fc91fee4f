/** Returns a list as a set, and builds it again only when the list is another object. */
export function rememberedSet(names: () => readonly string[] | undefined): () => ReadonlySet<string> | undefined {
  let list: readonly string[] | undefined;
  let set: ReadonlySet<string> | undefined;
  return () => {
    const now = names();
    if (now !== list) {
      list = now;
      set = now && new Set(now);
    }
    return set;
  };
}
