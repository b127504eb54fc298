// The documents of the server, as the page reads them. docs/http.md describes them.

export interface ServerInfo {
  version: string;
  page: string;
  now_ms: number;
  reads_only: boolean;
  takes_jobs: boolean;
  demo: boolean;
}

export interface JobFields {
  state: string;
  ready: boolean;
  waits_for?: string | null;
  failure?: string | null;
  started_at_ms: number;
  rows_read_per_second?: number | null;
  rows_written_per_second?: number | null;
  rows_read?: number;
  rows_written?: number;
  watermark_ms?: number | "end" | null;
  result_p50_ms?: number | null;
  result_p99_ms?: number | null;
  checkpoint_at_ms?: number | null;
  checkpoint_took_ms?: number | null;
  checkpoint_bytes?: number | null;
  restarts?: number;
  tasks?: number;
  stages?: number;
  plan_version?: number;
  changing?: boolean | string | null;
  verdict?: string | null;
  why?: string | null;
  since_ms?: number | null;
}

export interface WorkerFields {
  pid: number;
  slots: number;
  address: string;
  labels: string[];
  tasks: number;
  last_heard_at_ms?: number | null;
  drained: boolean;
}

export interface AllJobs {
  number: number;
  at_ms: number;
  jobs: Record<string, JobFields>;
  /** What has happened lately, the newest first. */
  marks: JobMark[];
  workers: Record<string, WorkerFields>;
}

export interface StageFields {
  name: string;
  tasks: number;
  rows_in?: number;
  rows_out?: number;
  rows_in_per_second?: number | null;
  rows_out_per_second?: number | null;
  busy?: number | null;
  idle?: number | null;
  backpressured?: number | null;
  busiest?: number | null;
  queue_share?: number | null;
  queue_rows?: number | null;
  oldest_queued_ms?: number | null;
  watermark_ms?: number | "end" | null;
  late_rows?: number;
  malformed_rows?: number;
  epoch?: number;
  cpu_share?: number | null;
  p99_ms?: number | null;
}

export interface TaskFields {
  worker: string;
  rows_in_per_second?: number | null;
  rows_out_per_second?: number | null;
  busy?: number | null;
  idle?: number | null;
  backpressured?: number | null;
  queue_share?: number | null;
  queue_rows?: number | null;
  oldest_queued_ms?: number | null;
  watermark_ms?: number | "end" | null;
  late_rows?: number;
  epoch?: number;
  p99_ms?: number | null;
  cpu_share?: number | null;
  thread?: number | null;
}

export interface ChainLink {
  stage: number | null;
  name: string;
  text: string;
  cause: boolean;
}

export interface Remedy {
  text: string;
  change: Record<string, unknown> | null;
}

export interface Why {
  verdict: string;
  text: string | null;
  since_ms?: number | null;
  stage?: number | null;
  chain: ChainLink[];
  next?: { at_ms: number | null; text: string } | null;
  remedies: Remedy[];
}

export interface JobDocument {
  number: number;
  at_ms: number;
  /** Only of history: how many seconds the moment stands for. */
  seconds?: number;
  job: JobFields & {
    incarnation?: number;
    epoch?: number;
    late_rows?: number;
    malformed_rows?: number;
    rows_without_event_time?: number;
    rows_with_null?: number;
    group_epochs?: number;
    coordination_share?: number | null;
  };
  stages: Record<string, StageFields>;
  checkpoints?: {
    completed: number;
    abandoned: number;
    last?: { epoch: number; completed_at_ms: number; took_ms: number; bytes: number } | null;
  };
  why?: Why | null;
  tasks?: Record<string, TaskFields>;
}

export interface Frame {
  at_ms: number;
  seconds: number;
  state: string;
  rows_read_per_second: number | null;
  rows_written_per_second: number | null;
  lag_ms: number | null;
  result_p99_ms: number | null;
  busiest: number | null;
  verdict: string | null;
  /** If a stage was asked for. Null: the job had no such stage then. */
  stage?: StageFields | null;
}

export interface Mark {
  at_ms: number;
  kind: string;
  text: string;
}

export interface JobMark extends Mark {
  job: string;
}

export interface History {
  frames: Frame[];
  marks: Mark[];
}

/** A place in a text: line and column from 1, columns in characters. */
export interface TextPlace {
  line: number;
  column: number;
}

/** A part of a text; it ends before `to`. */
export interface TextRange {
  from: TextPlace;
  to: TextPlace;
}

/** The parts of the SQL text that a stage comes from. */
export interface StageSql {
  source: TextRange[];
  /** Of each operator. */
  operators: TextRange[][];
  sink: TextRange[];
}

export interface PlanStage {
  stage: number;
  name: string;
  parallelism: number;
  source: string | null;
  operators: string[];
  sink: string | null;
  window_step_ms: number | null;
  window_offset_ms: number | null;
  sql: StageSql;
}

export interface PlanExchange {
  from: number;
  to: number;
  kind: string;
  static_side_of: number | null;
}

export interface Plan {
  version: number;
  scheduling: string | null;
  stages: PlanStage[];
  exchanges: PlanExchange[];
  text: string;
}

export interface LatencySummary {
  rows: number;
  p50_ms: number;
  p99_ms: number;
  p999_ms: number;
  max_ms: number;
  mean_ms: number;
}

export interface Task {
  stage: number;
  stage_name: string;
  task: number;
  worker: string;
  thread: number | null;
  reads_table: boolean;
  writes_table: boolean;
  rows_in: number;
  rows_in_per_second: number;
  busy_share: number | null;
  queue_rows: number;
  oldest_queued_ms: number;
  oldest_read_ms: number;
  latency: LatencySummary;
  result_latency: LatencySummary;
}

export interface CheckpointRecord {
  at_ms: number;
  outcome: string;
  epoch: number | null;
  took_ms: number | null;
  phases: CheckpointPhases | null;
  bytes: number | null;
}

/** The time of a checkpoint, divided: the parts add up. */
export interface CheckpointPhases {
  request_ms: number;
  alignment_ms: number;
  write_ms: number;
  commit_ms: number;
  slowest: { stage: number; stage_name: string | null; task: number; worker: string; phase: string; took_ms: number };
}

export interface Failure {
  at_ms: number;
  text: string;
}

export interface Checkpoints {
  place: string | null;
  completed: number;
  abandoned: number;
  last: { incarnation: number; epoch: number; completed_at_ms: number; took_ms: number; bytes: number } | null;
  restarts: number;
  failures: Failure[];
  history: CheckpointRecord[];
}

/** What the tasks of a worker load or open. */
export interface Load {
  worker: string;
  tasks: number;
  key_groups: number;
  bytes: number | null;
}

/** What becomes of a part of a job. */
export interface Fate {
  fate: string;
  what: string;
  part: string;
  number: number | null;
  /** Its stage in the plan that runs. */
  stage: number | null;
  /** Its stage in the new plan. */
  next_stage: number | null;
  how: string | null;
  bytes: number | null;
  loaded_bytes: number | null;
  loads: Load[];
}

/** What is known of a change before it is carried out. */
export interface Ahead {
  plan: Plan;
  epoch: number | null;
  loads_ahead: boolean | null;
}

export interface ChangeRecord {
  at_ms: number;
  request: string;
  outcome: string;
  version: number | null;
  reason: string | null;
  took_ms: number | null;
  changes: Fate[];
}

export interface ChangeList {
  changing: boolean;
  step: string | null;
  changes: ChangeRecord[];
}

export interface Notice {
  number: number;
  at_ms: number;
  times: number;
  text: string;
}

export interface Reconfigured {
  version: number;
  unchanged: boolean;
  took_ms: number;
  copied_bytes: number;
  changes: Fate[];
  ahead: Ahead | null;
}

export interface OperatorState {
  operator: number;
  description: string;
  rows: number;
  bytes: number;
  files: number;
  watermark_ms: number | null;
}

export interface StateRows {
  operator: number;
  columns: string[];
  rows: (string | null)[][];
  notes: string[];
}

export interface StateDocument {
  place: string;
  epoch: number;
  completed_at_ms: number;
  operators: OperatorState[];
  /** Of the operator that was asked for. */
  rows: StateRows | null;
}
