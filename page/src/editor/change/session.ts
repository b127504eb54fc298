// The change of one job as the user prepares it: what runs, what is to run, and what would become of the parts.
import { batch, computed, effect, signal, untracked } from "@preact/signals";
import { type ApiError, isAbort, jobPath, request } from "../../api";
import type { ChangeList, Reconfigured } from "../../docs";
import { live } from "../../job/model";
import { toApiError } from "../../resource";
import { Latest } from "../latest";
import { type Mark, markOf } from "../places";
import { plainLines, type RunningText } from "../requests";
import { shown } from "../../shown";
import { allSettings, changedSettings, type Row, rowsOf } from "../settings";
import { allowed, type Forms, type Needs, needsOf, needsOfRefusal, NO_FORMS, type Order, orderOf } from "./order";

const PAUSE_MS = 400;
/** Above this size a dry run is made only when it is asked for. */
export const LARGE = 256 * 1024;
const FOLLOW_MS = 1000;

export type Rehearsal =
  | { kind: "nothing" }
  | { kind: "asking" }
  | { kind: "large" }
  | { kind: "fates" }
  | { kind: "refused"; error: ApiError };

export type Outcome =
  | { kind: "done"; done: Reconfigured }
  /** `undone`: it had begun. */
  | { kind: "failed"; error: ApiError; undone: boolean };

export class Session {
  readonly base = signal<RunningText | null>(null);
  readonly error = signal<ApiError | null>(null);
  /** What runs now, if that is another text than the one from which the user began. */
  readonly other = signal<RunningText | null>(null);
  /** The running plan has changed meanwhile, and the text has not. */
  readonly said = signal("");
  readonly text = signal("");
  readonly forms = signal<Forms>(NO_FORMS);
  readonly rehearsal = signal<Rehearsal>({ kind: "nothing" });
  /** What the change would do, by the newest dry run. It stays while another one is asked for. */
  readonly would = signal<Reconfigured | null>(null);
  readonly marks = signal<Mark[]>([]);
  readonly needs = signal<Needs>({ lostState: false, late: false });
  readonly applying = signal(false);
  readonly outcome = signal<Outcome | null>(null);
  readonly list = signal<ChangeList | null>(null);
  readonly listError = signal<ApiError | null>(null);
  /** Texts by the version of the plan, as far as this page has seen them. */
  readonly texts = signal<ReadonlyMap<number, string>>(new Map());
  /** The order as text: another object with the same content is no other order. */
  private readonly key = computed(() => JSON.stringify(this.base.value === null ? null : orderOf(this.base.value.sql, this.text.value, this.forms.value)));
  readonly order = computed(() => JSON.parse(this.key.value) as Order | null);
  private readonly rehearse = new Latest<Order, Reconfigured>(
    async (order, stop) => (await request(this.path("/reconfigure"), { method: "POST", body: { ...order, dry_run: true }, signal: stop })) as Reconfigured,
    (answer) => this.rehearsed(answer),
    (failure, order) => this.refused(toApiError(failure), order),
  );
  /** The order that had the newest outcome. */
  private outcomeOf = "";
  private refusal: { order: string; needs: Needs } | null = null;
  private loading: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly job: string) {}

  private path(rest: string): string {
    return jobPath(this.job, rest);
  }

  /** The screen is open: follows the job. Returns what ends that. */
  open(): () => void {
    const version = computed(() => live.doc.value?.job.plan_version ?? null);
    const changing = computed(() => Boolean(live.doc.value?.job.changing));
    const follow = effect(() => {
      version.value;
      changing.value;
      // An own change brings its new text itself.
      if (this.applying.peek()) return;
      void this.load();
      void this.loadList();
    });
    const plan = effect(() => {
      const [order, key] = [this.order.value, this.key.value];
      // What would become of the parts also depends on what runs.
      this.base.value?.version;
      untracked(() => {
        // The outcome of the change before is read by then.
        if (order !== null && key !== this.outcomeOf) this.outcome.value = null;
        this.plan(order);
      });
    });
    return () => {
      follow();
      plan();
      this.rehearse.stop();
      this.loading?.abort();
      clearTimeout(this.timer);
    };
  }

  /** Fetches the running text. */
  async load(): Promise<void> {
    this.loading?.abort();
    const loading = (this.loading = new AbortController());
    try {
      const answer = (await request(this.path("/sql"), { signal: loading.signal })) as RunningText;
      if (loading.signal.aborted) return;
      const base: RunningText = { ...answer, sql: plainLines(answer.sql) };
      this.error.value = null;
      this.texts.value = new Map(this.texts.peek()).set(base.version, base.sql);
      this.took(base);
    } catch (failure) {
      if (!isAbort(failure) && !loading.signal.aborted) this.error.value = toApiError(failure);
    }
  }

  /** The running text has come, perhaps while the user has another one in work. */
  private took(now: RunningText): void {
    const before = this.base.peek();
    if (before === null || this.order.peek() === null) return this.begin(now, before !== null && before.sql !== now.sql);
    const touched = otherSettings(before.settings, now.settings);
    const mine = changedSettings(this.forms.peek().rows);
    if (before.sql !== now.sql || JSON.stringify(before.options) !== JSON.stringify(now.options) || touched.some((name) => name in mine)) {
      this.other.value = now;
      return;
    }
    // Nothing that the user changes: the change goes on from what runs now.
    this.other.value = now;
    this.keepMine();
    const own = this.outcome.peek();
    if (before.version === now.version || (own?.kind === "failed" && own.undone)) return;
    const what = touched.length === 0 ? "Its text and its options are the same" : `These options are others: ${touched.map(shown).join(", ")}`;
    this.said.value = `The job runs by version ${now.version} of its plan now. ${what}. The dry run was made again.`;
  }

  private begin(now: RunningText, isOther: boolean): void {
    batch(() => {
      this.base.value = now;
      this.other.value = null;
      this.text.value = now.sql;
      this.forms.value = { ...NO_FORMS, rows: rowsOf(now.settings) };
      this.said.value = isOther ? "The job runs by another text now. The editor shows it." : "";
    });
  }

  /** The answer to another text that runs meanwhile. */
  takeNew(): void {
    const now = this.other.peek();
    if (now !== null) this.begin(now, true);
  }

  keepMine(): void {
    const [now, before] = [this.other.peek(), this.base.peek()];
    if (now === null || before === null) return;
    batch(() => {
      // What the user has set stays, over the options that the job has now.
      const forms = this.forms.peek();
      const own = forms.rows.filter((row) => row.removed || row.value !== row.was);
      const rest = rowsOf(now.settings).filter((row) => !own.some((other) => other.name === row.name));
      const rows: Row[] = [...rest, ...own.map((row) => ({ ...row, was: now.settings[row.name] ?? null }))];
      // A text that the user has not touched is the new one.
      if (this.text.peek() === before.sql) this.text.value = now.sql;
      this.forms.value = { ...forms, rows };
      this.base.value = now;
      this.other.value = null;
    });
  }

  reset(): void {
    const base = this.base.peek();
    if (base !== null) this.begin(base, false);
    this.outcome.value = null;
  }

  setForms(change: Partial<Forms>): void {
    this.forms.value = { ...this.forms.peek(), ...change };
  }

  private plan(order: Order | null): void {
    batch(() => {
      const isLarge = (order?.sql?.length ?? 0) > LARGE;
      if (order === null || isLarge) {
        this.rehearse.stop();
        this.rehearsal.value = { kind: isLarge ? "large" : "nothing" };
        this.would.value = null;
        this.marks.value = [];
        this.needs.value = { lostState: false, late: false };
        return;
      }
      this.rehearsal.value = { kind: "asking" };
      this.rehearse.after(PAUSE_MS, order);
    });
  }

  rehearseNow(): void {
    const order = this.order.peek();
    if (order === null) return;
    this.rehearsal.value = { kind: "asking" };
    this.rehearse.now(order);
  }

  private rehearsed(answer: Reconfigured): void {
    batch(() => {
      this.rehearsal.value = { kind: "fates" };
      this.would.value = answer;
      this.marks.value = [];
      this.asks(needsOf(answer.changes));
    });
  }

  /** A box that is no longer needed is not ticked either: the next loss is another one. */
  private asks(found: Needs): void {
    // What the change itself was refused for counts until another change is asked for.
    const known = this.refusal?.order === this.key.peek() ? this.refusal.needs : found;
    const needs = { lostState: found.lostState || known.lostState, late: found.late || known.late };
    this.needs.value = needs;
    const forms = this.forms.peek();
    const [allowLostState, allowLate] = [forms.allowLostState && needs.lostState, forms.allowLate && needs.late];
    if (allowLostState !== forms.allowLostState || allowLate !== forms.allowLate) this.setForms({ allowLostState, allowLate });
  }

  private refused(error: ApiError, order: Order): void {
    batch(() => {
      this.rehearsal.value = { kind: "refused", error };
      this.would.value = null;
      const mark = order.sql === undefined || error.status !== 400 ? null : markOf(order.sql, error);
      this.marks.value = mark === null ? [] : [mark];
      this.asks(needsOfRefusal(error.error, error.remedy));
    });
  }

  /** Carries the change out, if what runs is still what the user has seen. The answer comes when it is settled. */
  async apply(): Promise<void> {
    const order = this.order.peek();
    const base = this.base.peek();
    if (order === null || base === null || this.applying.peek()) return;
    this.outcome.value = null;
    this.said.value = "";
    this.applying.value = true;
    this.outcomeOf = this.key.peek();
    try {
      const body = { ...allowed(order, this.forms.peek()), if_version: base.version };
      const done = (await request(this.path("/reconfigure"), { method: "POST", body })) as Reconfigured;
      const sql = order.sql ?? base.sql;
      this.texts.value = new Map(this.texts.peek()).set(done.version, sql);
      const settings = allSettings(this.forms.peek().rows);
      this.begin({ ...base, sql, settings, version: done.version }, false);
      this.outcome.value = { kind: "done", done };
    } catch (failure) {
      await this.failed(toApiError(failure));
    }
    this.applying.value = false;
    await this.loadList();
    void this.load();
  }

  private async failed(error: ApiError): Promise<void> {
    // What runs instead, and the two choices, say it better than the refusal.
    if (error.status === 409 && /somebody else has changed it/.test(error.error)) return this.load();
    await this.loadList();
    const last = this.list.peek()?.changes.at(-1);
    this.outcome.value = { kind: "failed", error, undone: last?.outcome === "undone" && error.status === 409 };
    this.refusal = { order: this.key.peek(), needs: needsOfRefusal(error.error, error.remedy) };
    this.asks(this.needs.peek());
  }

  /** The change that is being prepared is not carried out. */
  async abort(): Promise<ApiError | null> {
    try {
      await request(this.path("/changes/abort"), { method: "POST" });
      return null;
    } catch (failure) {
      return toApiError(failure);
    }
  }

  /** Fetches the history, and again as long as a change is under way. */
  async loadList(): Promise<void> {
    clearTimeout(this.timer);
    try {
      const list = (await request(this.path("/changes"))) as ChangeList;
      this.list.value = list;
      this.listError.value = null;
      if (list.changing || this.applying.peek()) this.timer = setTimeout(() => void this.loadList(), FOLLOW_MS);
    } catch (failure) {
      this.listError.value = toApiError(failure);
    }
  }
}

/** Names of the options that differ. */
function otherSettings(a: Record<string, string>, b: Record<string, string>): string[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((name) => a[name] !== b[name]);
}

// What the user has typed stays when another screen is opened.
const sessions = new Map<string, Session>();
const SESSIONS_MAX = 20;

export function sessionOf(job: string): Session {
  const found = sessions.get(job) ?? new Session(job);
  sessions.delete(job);
  sessions.set(job, found);
  const oldest = sessions.keys().next().value;
  if (sessions.size > SESSIONS_MAX && oldest !== undefined) sessions.delete(oldest);
  return found;
}
