/** Draws a chart over time, with the same numbers in words and in a table for people who cannot see it. */
import type uPlot from "uplot";
import { useEffect, useRef, useState } from "preact/hooks";
import { repaint } from "./choices.tsx";
import { count, lazily } from "../state/format.ts";
import type { Chart, Column, Query } from "../shapes.ts";

export interface ChartLine {
  readonly name: string;
  readonly values: Column;
  /** The custom property with its colour. */
  readonly colour: string;
  readonly dashed?: boolean;
  /** The sum that is shown next to its name. */
  readonly sum: string;
  /** What the list is asked beside the time, so that it has what this line counts. */
  readonly asks?: Query;
}

interface ChartProps {
  readonly title: string;
  readonly chart: Pick<Chart, "from" | "stepMs">;
  readonly lines: readonly ChartLine[];
  readonly format?: (value: number) => string;
  /** The address of the list of what happened in a step, epoch ms: a click there leads to it. */
  readonly list?: ((from: number, to: number, asks?: Query) => string) | undefined;
}

const HEIGHT = 180;
/** Counts have no halves. */
const STEPS = Array.from({ length: 36 }, (_, i) => ([1, 2, 5][i % 3] as number) * 10 ** Math.floor(i / 3));
const DAY_MS = 86_400_000;
const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
const hour = lazily(() => new Intl.DateTimeFormat(undefined, clock));
const day = lazily(() => new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric" }));
const at = lazily(() => new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", ...clock }));

export const ChartCard = ({ title, chart, lines, format = count, list }: ChartProps) => {
  const [pointed, point] = useState<number | undefined>(undefined);
  const from = Date.parse(chart.from);
  const time = (i: number): string => at().format(new Date(from + i * chart.stepMs));
  const link = (i: number, asks?: Query): string | undefined =>
    list?.(from + i * chart.stepMs, from + (i + 1) * chart.stepMs, asks);
  const { box, failed } = usePlot(chart, lines, format, point, link);
  const value = (line: ChartLine, i: number): string => {
    const one = line.values[i];
    return one === null || one === undefined ? "–" : format(one);
  };
  return (
    <figure class="card chart">
      <figcaption>
        <div class="chart-head">
          <h2>{title}</h2>
          {pointed !== undefined && <small>{time(pointed)}</small>}
        </div>
        <ul class="legend">
          {lines.map((line) => (
            <li key={line.name} {...lookOf(line)}>
              {line.name} <b>{pointed === undefined ? line.sum : value(line, pointed)}</b>
            </li>
          ))}
        </ul>
      </figcaption>
      {failed && (
        <p class="quiet" role="status">
          This chart cannot be drawn: reload the page.
        </p>
      )}
      <div
        ref={box}
        class={list === undefined ? "plot" : "plot leads"}
        role="img"
        aria-label={`${title}: ${lines.map(({ name, sum }) => `${name} ${sum}`).join(", ")}`}
      />
      <ChartTable title={title} lines={lines} time={time} value={value} link={link} />
    </figure>
  );
};

/**
 * Draws the lines into a box, again when they or the colours change.
 * @param point takes the step under the pointer
 * @param link the address to which a click on a step leads
 */
function usePlot(
  { from, stepMs }: ChartProps["chart"],
  lines: readonly ChartLine[],
  format: (value: number) => string,
  point: (i: number | undefined) => void,
  link: (i: number) => string | undefined,
) {
  const box = useRef<HTMLDivElement>(null);
  const [painted, paint] = useState(0);
  const [failed, setFailed] = useState(false);
  const leads = useRef(link);
  leads.current = link;
  useEffect(() => {
    const again = (): void => paint((before) => before + 1);
    repaint.addEventListener("paint", again);
    return () => repaint.removeEventListener("paint", again);
  }, []);
  useEffect(() => {
    let made: uPlot | undefined;
    let over = false;
    const size = new ResizeObserver(() => made?.setSize({ width: box.current?.clientWidth ?? 300, height: HEIGHT }));
    const draw = async (): Promise<void> => {
      const { default: Plot } = await import("uplot");
      if (over || box.current === null) return;
      const times = (lines[0]?.values ?? []).map((_, i) => (Date.parse(from) + i * stepMs) / 1_000);
      const data = [times, ...lines.map(({ values }) => [...values])] as uPlot.AlignedData;
      made = new Plot(options(box.current, lines, format, point), data, box.current);
      const { over: area } = made;
      area.addEventListener("click", ({ offsetX }) => {
        const address = leads.current(made?.posToIdx(offsetX) ?? 0);
        if (address !== undefined) location.hash = address;
      });
      size.observe(box.current);
      setFailed(false);
    };
    // A page that is open for days may ask for the library of a version that is no longer served.
    draw().catch(() => setFailed(true));
    return () => {
      over = true;
      size.disconnect();
      made?.destroy();
    };
  }, [lines, painted]);
  return { box, failed };
}

interface ChartTableProps extends Pick<ChartProps, "title" | "lines"> {
  readonly time: (i: number) => string;
  readonly value: (line: ChartLine, i: number) => string;
  readonly link: (i: number, asks?: Query) => string | undefined;
}

/** Shows the steps in which something happened, once somebody wants to see them. */
const ChartTable = ({ title, lines, time, value, link }: ChartTableProps) => {
  const [open, setOpen] = useState(false);
  const steps = [...(lines[0]?.values.keys() ?? [])].filter((i) => lines.some(({ values }) => (values[i] ?? 0) !== 0));
  return (
    <details onToggle={(event: Event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>
        As a table
        <span class="hidden">{`: ${title}`}</span>
      </summary>
      <div class="figures" tabIndex={0} role="region" aria-label={`${title}, as a table`}>
        {open && steps.length === 0 && <p class="quiet">Nothing happened in this time.</p>}
        {open && steps.length > 0 && (
          <table>
            <thead>
              <tr>
                {["From", ...lines.map(({ name }) => name)].map((name) => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {steps.toReversed().map((i) => (
                <tr key={i}>
                  <th scope="row">{link(i) === undefined ? time(i) : <a href={link(i)}>{time(i)}</a>}</th>
                  {lines.map((line) => (
                    <td key={line.name}>
                      {line.asks && link(i) ? <a href={link(i, line.asks)}>{value(line, i)}</a> : value(line, i)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
    </details>
  );
};

function options(
  box: HTMLElement,
  lines: readonly ChartLine[],
  format: (value: number) => string,
  point: (i: number | undefined) => void,
): uPlot.Options {
  const font = `12px ${getComputedStyle(box).fontFamily}`;
  const colour = (name: string): string => colourIn(box, name);
  const axis = { stroke: colour("quiet"), font, grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  return {
    width: box.clientWidth || 300,
    height: HEIGHT,
    legend: { show: false },
    padding: [8, 20, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: (_, __, most) => [0, Math.max(1, (most ?? 0) * 1.1)] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 64,
        size: 28,
        values: (_, splits) => splits.map((one, i) => tick(one, splits, i)),
      },
      { ...axis, size: 56, values: (_, splits) => splits.map((one) => format(one)), space: 36, incrs: STEPS },
    ],
    series: [
      {},
      ...lines.map(({ colour: name, dashed }, i) => ({
        stroke: colour(name),
        width: 2,
        dash: dashed ? [6, 4] : undefined,
        fill: i === 0 ? thin(colour(name)) : undefined,
        points: { size: 5, fill: colour(name), filter: alone },
        spanGaps: false,
      })),
    ],
    hooks: { setCursor: [(plot) => point(plot.cursor.idx ?? undefined)] },
  };
}

/** Returns the attributes of a line in the legend. */
const lookOf = ({ colour, dashed }: ChartLine) => ({
  class: dashed ? "line is-dashed" : "line",
  style: { "--stroke": `var(--${colour})` },
});

/** Returns a colour of the theme as a canvas takes it. The property itself says what it is in either theme. */
function colourIn(box: HTMLElement, name: string): string {
  box.style.color = `var(--${name})`;
  const found = getComputedStyle(box).color;
  box.style.color = "";
  return found;
}
/** `rgb(36, 80, 196)` → the same, nearly transparent. */
const thin = (rgb: string): string => rgb.replace(/^rgb\((.*)\)$/, "rgba($1, 0.12)");

/** A midnight is shown as its day. */
function tick(seconds: number, splits: readonly number[], i: number): string {
  const date = new Date(seconds * 1_000);
  const span = ((splits.at(-1) ?? 0) - (splits[0] ?? 0)) * 1_000;
  return span > 2 * DAY_MS || (i > 0 && date.getHours() + date.getMinutes() === 0)
    ? day().format(date)
    : hour().format(date);
}

/** Returns points without neighbours: without a mark they would not be visible. */
function alone(plot: uPlot, series: number): number[] {
  const values = plot.data[series] ?? [];
  const there = (i: number): boolean => values[i] !== null && values[i] !== undefined;
  return [...values.keys()].filter((i) => there(i) && !there(i - 1) && !there(i + 1));
}
