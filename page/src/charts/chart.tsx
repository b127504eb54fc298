// A chart of one or two series over time, by uPlot. The values are also in the heading, so that the picture is never the only source.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { NONE, timeOfDay } from "../format";

export interface Series {
  name: string;
  values: (number | null)[];
}

interface Props {
  title: string;
  /** Seconds since 1970. */
  times: number[];
  series: Series[];
  format: (value: number | null) => string;
  /** The chosen moment, in seconds. */
  at: number | null;
  from: number;
  to: number;
  /** Largest value of the axis, if that is fixed. */
  most?: number;
}

const HEIGHT = 120;

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export default function Chart({ title, times, series, format, at, from, to, most }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const range = useRef({ from, to, at });
  range.current = { from, to, at };
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const make = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(options(element.clientWidth, series, format, range, most), data(times, series), element);
    };
    make();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    // Colours of a canvas do not follow the theme by themselves.
    const theme = matchMedia("(prefers-color-scheme: dark)");
    theme.addEventListener("change", make);
    return () => {
      theme.removeEventListener("change", make);
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [series.length, title]);
  useEffect(() => {
    plot.current?.setData(data(times, series));
  }, [times, series, from, to, at]);
  const latest = series.map((one) => `${one.name} ${format(valueAt(times, one.values, at))}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        {series.map((one, index) => (
          <span key={one.name} class={`chart-value series-${index}`}><span aria-hidden="true">{index === 0 ? "━ " : "┅ "}</span>{series.length > 1 ? `${one.name} ` : ""}<strong>{format(valueAt(times, one.values, at))}</strong></span>
        ))}
      </figcaption>
      <div ref={box} class="chart-box" role="img" aria-label={`${title}: ${latest}`} />
    </figure>
  );
}

function valueAt(times: number[], values: (number | null)[], at: number | null): number | null {
  if (at === null) return values.at(-1) ?? null;
  const index = times.findLastIndex((time) => time <= at);
  return values[index] ?? null;
}

function data(times: number[], series: Series[]): uPlot.AlignedData {
  return [times, ...series.map((one) => one.values)] as uPlot.AlignedData;
}

function options(width: number, series: Series[], format: Props["format"], range: { current: { from: number; to: number; at: number | null } }, most: number | undefined): uPlot.Options {
  const [axis, grid, font] = [color("--dim"), color("--line"), "11px system-ui, sans-serif"];
  const strokes = [color("--accent"), color("--second")];
  return {
    width,
    height: HEIGHT,
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    legend: { show: false },
    scales: { x: { time: true, range: () => [range.current.from, range.current.to] }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), most ?? ((high ?? 0) > 0 ? (high ?? 0) * 1.1 : 1)] } },
    series: [{}, ...series.map((one, index) => ({ label: one.name, stroke: strokes[index] ?? axis, width: 1.5, dash: index === 0 ? [] : [4, 3], points: { show: false }, spanGaps: false }))],
    axes: [
      { stroke: axis, font, size: 22, gap: 4, grid: { show: false }, ticks: { stroke: grid, size: 4 }, values: (_, splits) => splits.map((at) => timeOfDay(at * 1000).replace(/:00$/, "")), space: 80 },
      { stroke: axis, font, size: 60, gap: 6, grid: { stroke: grid, width: 1 }, ticks: { show: false }, values: (_, splits) => splits.map((value) => (value === 0 && format(0) === NONE ? "0" : format(value))), space: 32 },
    ],
    hooks: { draw: [(plot) => drawMoment(plot, range.current.at, color("--past"))] },
  };
}

/** A line at the moment that the screens show. */
function drawMoment(plot: uPlot, at: number | null, stroke: string): void {
  if (at === null) return;
  const x = Math.round(plot.valToPos(at, "x", true));
  if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) return;
  plot.ctx.save();
  plot.ctx.strokeStyle = stroke;
  plot.ctx.lineWidth = 2;
  plot.ctx.setLineDash([]);
  plot.ctx.beginPath();
  plot.ctx.moveTo(x, plot.bbox.top);
  plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
  plot.ctx.stroke();
  plot.ctx.restore();
}
