// Where time goes: the path of the latest stages from a sink back to a source, and what each of them adds. Pure.

export interface StageTime {
  stage: number;
  /** From the reading of a row until this stage has processed it. */
  until_ms: number;
  /** What this stage adds to the slowest stage before it: its queue and its work. */
  added_ms: number;
}

interface Edge {
  from: number;
  to: number;
}

/** For each stage with a latency, in the order of the stream: the time until it, and what it adds. */
export function stageTimes(stages: readonly number[], edges: readonly Edge[], p99: (stage: number) => number | null | undefined): StageTime[] {
  return inOrder(stages, edges).flatMap((stage) => {
    const until = p99(stage);
    if (until === null || until === undefined) return [];
    const before = edges.filter((edge) => edge.to === stage).map((edge) => p99(edge.from) ?? 0);
    // 99th percentiles of different stages are of different rows: a stage cannot take less than nothing.
    return [{ stage, until_ms: until, added_ms: Math.max(0, until - Math.max(0, ...before)) }];
  });
}

/** The stages with each one after those that it reads. Stages of a cycle, which plans do not have, come last. */
export function inOrder(stages: readonly number[], edges: readonly Edge[]): number[] {
  const waiting = new Map(stages.map((stage) => [stage, edges.filter((edge) => edge.to === stage && stages.includes(edge.from)).length]));
  const order: number[] = [];
  const ready = stages.filter((stage) => waiting.get(stage) === 0);
  for (const stage of ready) {
    order.push(stage);
    for (const edge of edges.filter((one) => one.from === stage)) {
      const left = (waiting.get(edge.to) ?? 0) - 1;
      waiting.set(edge.to, left);
      if (left === 0) ready.push(edge.to);
    }
  }
  return [...order, ...stages.filter((stage) => !order.includes(stage))];
}
