// The job whose screens are open: its live document, the past if that is shown, its plan.
import { batch, computed, effect, signal } from "@preact/signals";
import { ApiError, isAbort, jobPath, request } from "../api";
import type { JobDocument, Plan } from "../docs";
import { Live, now } from "../live";
import { past } from "../past";
import { toApiError } from "../resource";

export const jobName = signal<string | null>(null);
/** The stage whose tasks are shown. */
export const openStage = signal<number | null>(null);

/** Counts what happened that makes fetched lists old: reconnects, changes, restarts. */
export const turn = signal(0);

export const live = new Live<JobDocument>(() => (turn.value += 1), isGone);

async function isGone(): Promise<boolean> {
  const name = jobName.peek();
  if (name === null) return true;
  try {
    await request(jobPath(name));
    return false;
  } catch (failure) {
    return failure instanceof ApiError && failure.status === 404;
  }
}

export const pastDoc = signal<JobDocument | null>(null);
export const pastError = signal<ApiError | null>(null);

/** What all screens show: the past if one is chosen, else now. */
export const view = computed(() => (past.value === null ? live.doc.value : pastDoc.value));

/** The time of what is shown, by the server's clock. */
export const shownNow = computed(() => (past.value === null ? now.value : (pastDoc.value?.at_ms ?? past.value)));

/** The plan that runs. */
export const plan = signal<Plan | null>(null);
export const planError = signal<ApiError | null>(null);
/** By their versions, as far as this page has asked for them; or why the server does not have one. */
const plans = signal<ReadonlyMap<number, Plan | ApiError>>(new Map());
const askedPlans = new Set<number>();

const shownVersion = computed(() => view.value?.job.plan_version ?? plan.value?.version ?? null);
const ofShownVersion = computed(() => {
  const version = shownVersion.value;
  if (version === null || plan.value?.version === version) return plan.value;
  return plans.value.get(version) ?? null;
});

/** The plan that ran at the moment that is shown. Null until it is there. */
export const shownPlan = computed(() => (ofShownVersion.value instanceof ApiError ? null : ofShownVersion.value));
/** Why there is no such plan. */
export const shownPlanError = computed(() => (ofShownVersion.value instanceof ApiError ? ofShownVersion.value : null));

/** Follows a job, until another one or none is followed. */
export function follow(name: string | null): void {
  if (jobName.peek() === name) return;
  batch(() => {
    jobName.value = name;
    openStage.value = null;
    past.value = null;
    pastDoc.value = null;
    pastError.value = null;
    plan.value = null;
    planError.value = null;
    plans.value = new Map();
  });
  askedPlans.clear();
  followed = null;
  if (name === null) live.close();
}

let followed: string | null = null;

/** Tasks are of one stage: those of another one must not be taken for its own. */
function withoutTasks(doc: JobDocument | null): JobDocument | null {
  if (doc?.tasks === undefined) return doc;
  const { tasks: _, ...rest } = doc;
  return rest;
}

effect(() => {
  const name = jobName.value;
  if (name === null) return;
  const stage = openStage.value;
  live.doc.value = withoutTasks(live.doc.peek());
  pastDoc.value = withoutTasks(pastDoc.peek());
  live.open(jobPath(name, "/live") + (stage === null ? "" : `?stage=${stage}`), followed === name);
  followed = name;
});

const planVersion = computed(() => live.doc.value?.job.plan_version ?? null);
const incarnation = computed(() => live.doc.value?.job.incarnation ?? null);
const changing = computed(() => Boolean(live.doc.value?.job.changing));

effect(() => {
  planVersion.value;
  incarnation.value;
  changing.value;
  turn.value = turn.peek() + 1;
});

let planRequest: AbortController | null = null;

effect(() => {
  const name = jobName.value;
  const version = planVersion.value;
  turn.value;
  planRequest?.abort();
  if (name === null || version === null || plan.peek()?.version === version) return;
  const abort = (planRequest = new AbortController());
  request(jobPath(name, "/plan"), { signal: abort.signal }).then(
    (answer) => {
      if (abort.signal.aborted) return;
      const next = answer as Plan;
      batch(() => {
        plans.value = new Map(plans.peek()).set(next.version, next);
        planError.value = null;
        plan.value = next;
      });
    },
    (failure: unknown) => {
      if (!isAbort(failure) && !abort.signal.aborted) planError.value = toApiError(failure);
    },
  );
});

// The plan of another time: each version is fetched once.
const isPast = computed(() => past.value !== null);

effect(() => {
  const [name, version] = [jobName.value, shownVersion.value];
  if (name === null || version === null || !isPast.value || plan.value?.version === version || plans.peek().has(version) || askedPlans.has(version)) return;
  askedPlans.add(version);
  const keep = (found: Plan | ApiError): void => {
    if (jobName.peek() === name) plans.value = new Map(plans.peek()).set(version, found);
  };
  request(jobPath(name, `/plan?version=${version}`)).then(
    (answer) => keep(answer as Plan),
    (failure: unknown) => {
      const error = toApiError(failure);
      if (error.status === 404) keep(error);
      else askedPlans.delete(version);
    },
  );
});

// The past: the newest moment wins. While the handle is dragged, one request is under way at a time.
let pastBusy = false;
let pastWanted: string | null = null;

effect(() => {
  const [name, at, stage] = [jobName.value, past.value, openStage.value];
  if (name === null || at === null) {
    pastWanted = null;
    return;
  }
  pastWanted = jobPath(name, `/history?at=${Math.round(at)}${stage === null ? "" : `&stage=${stage}`}`);
  if (!pastBusy) void loadPast();
});

async function loadPast(): Promise<void> {
  pastBusy = true;
  while (pastWanted !== null) {
    const path = pastWanted;
    try {
      const answer = (await request(path)) as JobDocument;
      batch(() => {
        if (past.peek() === null || jobName.peek() === null) return;
        pastDoc.value = answer;
        pastError.value = null;
      });
    } catch (failure) {
      if (pastWanted === path) pastError.value = toApiError(failure);
    }
    if (pastWanted === path) pastWanted = null;
  }
  pastBusy = false;
}
