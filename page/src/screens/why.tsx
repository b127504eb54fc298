// Why no output: the chain from the table that is written back to the cause, and what to do about it.
import { useComputed, useSignal } from "@preact/signals";
import type { Remedy, Why } from "../docs";
import { ago, dateTime, duration, timeOfDay, words } from "../format";
import { ChangeDialog } from "../job/change-dialog";
import { shownNow, view } from "../job/model";
import { past } from "../past";
import { href } from "../route";
import { mayChange } from "../server";
import { severity } from "../verdict";
import { Verdict } from "../ui/figure";
import { Text } from "../ui/text";

export default function WhyScreen({ name }: { name: string }) {
  const why = useComputed(() => view.value?.why ?? null).value;
  if (view.value === null) return null;
  return (
    <div class="screen why">
      <h2>Why no output</h2>
      {why === null || severity(why.verdict) === "well" ? <Well why={why} /> : <Answer name={name} why={why} />}
    </div>
  );
}

function Well({ why }: { why: Why | null }) {
  const job = view.value?.job;
  return (
    <>
      <p class="why-text"><Verdict verdict="well" text="All is well: results come, and nothing holds them up." /></p>
      {job?.watermark_ms === "end" && <p class="dim">All event time has passed: the tables that are read have ended.</p>}
      {why?.next != null && <Next next={why.next} />}
    </>
  );
}

function Answer({ name, why }: { name: string; why: Why }) {
  return (
    <>
      <p class="why-text"><Verdict verdict={why.verdict} text={<Text of={why.text ?? words(why.verdict)} max={2000} message />} /></p>
      {why.since_ms != null && <p class="dim">Since {dateTime(why.since_ms)} UTC, {ago(shownNow.value - why.since_ms)}.</p>}
      {why.next != null && <Next next={why.next} />}
      {why.chain.length > 0 && <Chain name={name} why={why} />}
      {why.remedies.length > 0 && <Remedies name={name} remedies={why.remedies} />}
    </>
  );
}

/** The next window ends at a moment of event time: how long that is depends on how fast event time goes. */
function Next({ next }: { next: NonNullable<Why["next"]> }) {
  const watermark = view.value?.job.watermark_ms;
  return (
    <section class="next">
      <h3>When results can come</h3>
      <p><Text of={next.text} max={400} /></p>
      {next.at_ms !== null && <p class="dim">Event time {dateTime(next.at_ms)} UTC{typeof watermark === "number" ? `; it is ${timeOfDay(watermark)} now, ${duration(next.at_ms - watermark)} before that` : ""}.</p>}
    </section>
  );
}

function Chain({ name, why }: { name: string; why: Why }) {
  return (
    <section>
      <h3>From the results back to the cause</h3>
      <ol class={severity(why.verdict) === "calm" ? "chain is-calm" : "chain"}>
        {why.chain.map((link, index) => (
          <li key={index} class={link.cause ? "is-cause" : ""}>
            <span class="chain-name">
              {link.stage === null || link.stage === undefined ? <Text of={link.name} max={80} /> : <a href={href(["job", name, "flow"], { stage: link.stage, at: past.value })}><span class="node-id">{link.stage}</span><Text of={link.name} max={80} /></a>}
              {link.cause && (severity(why.verdict) === "calm" ? <span class="tag">cause</span> : <span class="tag bad">▲ cause</span>)}
            </span>
            <span class="chain-text"><Text of={link.text} max={1000} message /></span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Remedies({ name, remedies }: { name: string; remedies: Remedy[] }) {
  const open = useSignal<Remedy | null>(null);
  return (
    <section>
      <h3>What to do</h3>
      <ol class="remedies">
        {remedies.map((remedy, index) => (
          <li key={index}>
            <Text of={remedy.text} max={1000} message />
            {remedy.change != null && mayChange.value && <button type="button" onClick={() => (open.value = remedy)}>Show what it would do</button>}
            {remedy.change != null && !mayChange.value && <span class="dim">{past.value !== null ? "This can be applied now, not in the past." : "This token may change nothing."}</span>}
          </li>
        ))}
      </ol>
      {open.value?.change != null && <ChangeDialog name={name} title="Change the job" order={withoutNulls(open.value.change)} onClose={() => (open.value = null)} />}
    </section>
  );
}

/** The server sends all fields of an order; null says that it is not given. */
function withoutNulls(order: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(order).filter(([, value]) => value !== null));
}
