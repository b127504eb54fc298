// The styles of the editor's screens. They come with these screens, as a sheet that the document adopts.

const SHEET = `
.q { display: flex; flex-direction: column; gap: 12px; min-width: 0; }
.q h2, .q h3 { margin: 0; }
.q .bar { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
.q .bar .push { margin-inline-start: auto; }
.q .tablist { display: flex; gap: 4px; border-bottom: 1px solid var(--line); overflow-x: auto; }
.q .tablist button { border: 0; border-bottom: 3px solid transparent; border-radius: 0; background: none; color: var(--dim); white-space: nowrap; }
.q .tablist button[aria-selected="true"] { color: var(--text); border-bottom-color: var(--accent); }
.q button.link { border: 0; background: none; padding: 0; min-height: 0; color: var(--accent); text-decoration: underline; font-weight: 400; }
.q fieldset { border: 0; margin: 0; padding: 0; min-width: 0; display: flex; flex-direction: column; gap: 8px; align-items: flex-start; } .q fieldset .fields { width: 100%; }
.q .hint { margin: 0; }
.q .bar label { display: inline-flex; gap: 6px; align-items: center; margin: 0; }
.q .said { margin: 0; min-height: 1.5em; overflow-wrap: anywhere; }
.q .said.well { color: var(--well); } .q .said.bad, .q .said .bad { color: var(--bad); }
.q .said .remedy { color: var(--text); display: block; }
.q .stack { display: flex; flex-direction: column; gap: 10px; min-width: 0; }
.q .box { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 12px; display: flex; flex-direction: column; gap: 10px; min-width: 0; }
.q details.box { display: block; padding: 8px 12px; } .q details[open].box > summary { margin-bottom: 8px; }
.q .note { border-inline-start: 4px solid var(--warn); padding: 8px 12px; background: var(--sunk); margin: 0; }
.q .note.is-bad { border-color: var(--bad); } .q .note.is-well { border-color: var(--well); } .q .note.is-calm { border-color: var(--line); }
.q .note p { margin: 0 0 6px; } .q .note p:last-child { margin: 0; }
.q .rows { overflow: auto; max-height: 60vh; border: 1px solid var(--line); border-radius: 6px; }
.q .rows table { border-collapse: collapse; font: 12px/1.5 var(--mono); width: max-content; min-width: min(100%, 36rem); }
.q .rows th { position: sticky; top: 0; background: var(--sunk); text-align: start; white-space: nowrap; }
.q .rows th small { display: block; font-weight: 400; color: var(--dim); }
.q .rows th, .q .rows td { padding: 2px 10px; border-bottom: 1px solid var(--line); }
.q .rows td { white-space: pre; max-width: 420px; overflow: hidden; text-overflow: ellipsis; }
.q .rows .number { text-align: end; font-variant-numeric: tabular-nums; }
.q .rows .null { color: var(--dim); font-style: italic; }
.q .rows .taken td { color: var(--bad); } .q .rows .came td.sign { color: var(--well); }
.q .fields { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr) auto; gap: 6px 8px; align-items: center; }
.q .fields input { width: 100%; box-sizing: border-box; min-width: 0; }
.q .fields .name { overflow-wrap: anywhere; font-family: var(--mono); font-size: 13px; }
.q .fields .gone { text-decoration: line-through; color: var(--dim); }
.q ul.plain, .q ol.plain { list-style: none; margin: 0; padding: 0; display: flex; flex-direction: column; gap: 4px; }
.q .plan-graph { overflow: auto; border: 1px solid var(--line); border-radius: 6px; max-height: 420px; }
.q .plan-graph svg { display: block; } .q .plan-graph rect { fill: var(--sunk); stroke: var(--line); }
.q .plan-graph text { fill: var(--text); font: 12px system-ui, sans-serif; } .q .plan-graph .name { font-weight: 600; font-size: 14px; }
.q .plan-graph .dim { fill: var(--dim); } .q .plan-graph .kind { paint-order: stroke; stroke: var(--bg); stroke-width: 5px; } .q .plan-graph .edge { fill: none; stroke: var(--dim); } .q .plan-graph .side { stroke-dasharray: 5 4; }
.q .plan-graph marker path { fill: var(--dim); }
.q .difference { overflow: auto; max-height: 50vh; border: 1px solid var(--line); border-radius: 6px; margin: 0; font: 12px/1.5 var(--mono); }
.q .difference table { border-collapse: collapse; width: 100%; }
.q .difference td { padding: 0 8px; white-space: pre; border: 0; height: auto; } .q .difference td.at { color: var(--dim); text-align: end; user-select: none; }
.q .difference tr.added { background: var(--q-added); } .q .difference tr.removed { background: var(--q-removed); }
.q .difference tr.left-out td { color: var(--dim); font-style: italic; white-space: normal; }
.q .two { display: grid; grid-template-columns: minmax(0, 3fr) minmax(280px, 2fr); gap: 16px; align-items: start; }
@media (max-width: 900px) { .q .two { grid-template-columns: minmax(0, 1fr); } }
.q { --q-added: #dcf4e1; --q-removed: #fbe3e1; }
@media (prefers-color-scheme: dark) { .q { --q-added: #12331d; --q-removed: #431c1b; } }
`;

let isAdopted = false;

/** Called by each screen: the sheet is adopted once. */
export function adoptSheet(): void {
  if (isAdopted) return;
  isAdopted = true;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(SHEET);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}
