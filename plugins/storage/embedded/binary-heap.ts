/** A binary heap of items that wait for a time, soonest first. */
export class Heap<T> {
  readonly #nodes: { readonly at: number; readonly item: T }[] = [];

  get size(): number {
    return this.#nodes.length;
  }

  /** Returns the soonest time; undefined when empty. */
  peek(): number | undefined {
    return this.#nodes[0]?.at;
  }

  push(at: number, item: T): void {
    const nodes = this.#nodes;
    let i = nodes.length;
    for (; i > 0;) {
      const up = (i - 1) >> 1;
      const parent = nodes[up] as (typeof nodes)[number];
      if (parent.at <= at) break;
      nodes[i] = parent;
      i = up;
    }
    nodes[i] = { at, item };
  }

  pop(): T | undefined {
    const nodes = this.#nodes;
    const first = nodes[0];
    const last = nodes.pop();
    if (first === undefined || last === undefined || first === last) return first?.item;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      const left = nodes[child];
      const right = nodes[child + 1];
      if (left === undefined) break;
      if (right !== undefined && right.at < left.at) child += 1;
      const least = nodes[child] as (typeof nodes)[number];
      if (least.at >= last.at) break;
      nodes[i] = least;
      i = child;
    }
    nodes[i] = last;
    return first.item;
  }
}
