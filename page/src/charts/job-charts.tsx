// The job over the last minutes, or around the chosen moment.
import { useComputed } from "@preact/signals";
import type { Frame } from "../docs";
import { duration, percent, rate } from "../format";
import { spanAround } from "../job/frames";
import { frames } from "../job/history";
import { now } from "../live";
import { past } from "../past";
import Chart from "./chart";

function around(list: Frame[], at: number | null, present: number): { from: number; to: number; inside: Frame[] } {
  const { from, to } = spanAround(at, present);
  return { from, to, inside: list.filter((frame) => frame.at_ms >= from - 60_000 && frame.at_ms <= to) };
}

export default function JobCharts({ only }: { only?: ("rates" | "latency" | "lag" | "busiest")[] }) {
  const shown = useComputed(() => around(frames.value, past.value, Math.ceil(now.value / 1000) * 1000));
  const { from, to, inside } = shown.value;
  const times = inside.map((frame) => frame.at_ms / 1000);
  const at = past.value === null ? null : past.value / 1000;
  const common = { times, at, from: from / 1000, to: to / 1000 };
  const wants = (name: "rates" | "latency" | "lag" | "busiest"): boolean => only === undefined || only.includes(name);
  const values = (of: (frame: Frame) => number | null | undefined) => inside.map((frame) => of(frame) ?? null);
  return (
    <div class="charts">
      {wants("rates") && <Chart {...common} title="Rows" format={rate} series={[{ name: "read", values: values((frame) => frame.rows_read_per_second) }, { name: "written", values: values((frame) => frame.rows_written_per_second) }]} />}
      {wants("latency") && <Chart {...common} title="Results after, p99" format={duration} series={[{ name: "p99", values: values((frame) => frame.result_p99_ms) }]} />}
      {wants("lag") && <Chart {...common} title="Event time behind" format={duration} series={[{ name: "behind", values: values((frame) => frame.lag_ms) }]} />}
      {wants("busiest") && <Chart {...common} title="Busiest task" format={percent} most={1} series={[{ name: "busy", values: values((frame) => frame.busiest) }]} />}
    </div>
  );
}
