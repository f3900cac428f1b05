/**
 * The look of every page. Colours are variables with a light and a dark value; text on the ground or on a surface has a contrast
 * of 4.5 or more, marks one of 3. A printed page is always light.
 */
export const style = `
:root {
  color-scheme: light dark;
  --ground: #ffffff; --surface: #f4f6f8; --text: #171b22; --muted: #57606d; --line: #dde2e8; --accent: #1c5fb5;
  --delivered: #14776a; --failed: #c0351b; --unknown: #946200; --skipped: #78818e; --bar: #3f78c2; --soft: #b4cbea;
  --border: #c3cad3;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #0f1217; --surface: #181d24; --text: #e9ebef; --muted: #a3acb9; --line: #2a313b; --accent: #82b4f6;
    --delivered: #43bba5; --failed: #ff8266; --unknown: #e3b04b; --skipped: #8b94a2; --bar: #6d9fe0; --soft: #35557f;
    --border: #3c4552;
  }
}
*, ::before, ::after { box-sizing: border-box }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100% }
body {
  margin: 0 auto; padding: clamp(1.5rem, 5vw, 4rem) clamp(1.125rem, 4vw, 3rem) 3rem; max-width: 72rem;
  background: var(--ground); color: var(--text);
  font: 1rem/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'Liberation Sans', Arial, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: break-word;
}
h1, h2, h3 { line-height: 1.2; letter-spacing: -0.015em; text-wrap: balance; font-weight: 650 }
h1 { margin: 0.5rem 0 0; max-width: 26ch; font-size: clamp(1.75rem, 1.3rem + 2.2vw, 2.75rem); letter-spacing: -0.025em }
h2 { margin: 0; font-size: clamp(1.25rem, 1.1rem + 0.6vw, 1.5rem) }
h3 { margin: 0; font-size: 1rem; letter-spacing: 0 }
p { margin: 0.5rem 0 0; max-width: 68ch; text-wrap: pretty }
small { font-size: 0.8125rem }
code { font: 0.9em ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace; overflow-wrap: anywhere; display: inline-block; max-width: 100% }
.whole { white-space: nowrap }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px }
section { margin-top: clamp(3rem, 6vw, 4.5rem) }
.kicker, .more, .note, footer { color: var(--muted) }
.kicker { margin: 0; font-size: 0.875rem }
.lead { margin-top: 1rem; font-size: 1.125rem }
.lead code { white-space: nowrap }
.note, .more { margin-top: 0.75rem; font-size: 0.875rem }
.good { color: var(--delivered) } .bad { color: var(--failed) } .doubtful { color: var(--unknown) }
.unseen { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
footer { margin-top: clamp(3rem, 6vw, 4.5rem); padding-top: 1.25rem; border-top: 1px solid var(--line); font-size: 0.875rem }

.alarms { margin: 1.5rem 0 0; padding: 0; list-style: none; display: grid; gap: 0.75rem; max-width: 75ch }
.alarms li { padding: 0.75rem 1rem; background: var(--surface); border-left: 3px solid var(--failed); border-radius: 2px 6px 6px 2px }

.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.25rem, 1fr)); gap: 1.5rem 1.125rem; margin: 2.5rem 0 0; padding: 1.5rem 0 0; border-top: 1px solid var(--line) }
.figures dt { color: var(--muted); font-size: 0.875rem }
.figures dd { margin: 0.125rem 0 0; font-size: 1.625rem; font-weight: 600; line-height: 1.25; letter-spacing: -0.02em }
.figures .word { font-size: 1.1875rem; line-height: 2.03125rem; letter-spacing: -0.01em }
.figures dd small { display: block; margin-top: 0.25rem; color: var(--muted); font-weight: 400; line-height: 1.4; letter-spacing: 0 }

figure { margin: 1.5rem 0 0; min-width: 0 }
figcaption p { margin: 0.25rem 0 0; color: var(--muted); font-size: 0.9375rem }
svg { display: block; max-width: 100%; height: auto; overflow: visible }
.drawing { container-type: inline-size }
.plot, .drawing > svg { margin-top: 1rem }
.plot svg { width: 100% } .plot .narrow { max-width: 26rem } .plot .broad { display: none }
@container (min-width: 42rem) { .plot .narrow { display: none } .plot .broad { display: block } }
svg text { fill: var(--muted); font-size: 12px }
svg .grid { stroke: var(--line) } svg .base { stroke: var(--border) }
.fill-delivered { fill: var(--delivered) } .fill-failed { fill: var(--failed) } .fill-unknown { fill: var(--unknown) }
.fill-skipped { fill: var(--skipped) } .fill-accent { fill: var(--bar) } .fill-soft { fill: var(--soft) }
.hatch { stroke: var(--ground); stroke-width: 2; fill: none }
.legend { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; margin: 0.75rem 0 0; padding: 0; list-style: none; font-size: 0.875rem }
.legend li { display: flex; align-items: center; gap: 0.5rem }
.legend svg { flex: none }
details { margin-top: 0.75rem; font-size: 0.875rem }
summary { width: fit-content; color: var(--accent); cursor: pointer }
details .table { margin-top: 0.5rem }

.table { margin-top: 2.5rem } h2 + .table { margin-top: 1.5rem }
.table h3 { margin-bottom: 0.5rem }
.scroll { overflow: auto; max-height: 34rem }
.scroll thead { position: sticky; top: 0; z-index: 1; background: var(--ground) }
table { width: 100%; border-collapse: collapse; font-size: 0.9375rem; line-height: 1.4 }
th, td { padding: 0.5rem 1.25rem 0.5rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; font-weight: 400 }
th:last-child, td:last-child { padding-right: 0 }
thead th { color: var(--muted); font-size: 0.8125rem; white-space: nowrap; vertical-align: bottom }
.number { text-align: right; white-space: nowrap }
td:not(.wide), th:not(.wide) { white-space: nowrap }
.wide { min-width: min(15rem, 54vw); max-width: 34rem; overflow-wrap: anywhere }
@media screen and (max-width: 40rem) {
  .stacked thead { display: none }
  .stacked tbody tr { display: flex; flex-wrap: wrap; gap: 0.125rem 1rem; padding: 0.75rem 0; border-bottom: 1px solid var(--line) }
  .stacked tbody :is(th, td) { display: block; min-width: 0; max-width: none; padding: 0; border: 0; text-align: left; white-space: normal; overflow-wrap: anywhere }
  .stacked tbody th { flex-basis: 100%; font-weight: 600 }
  .stacked td.wide { flex-basis: 100% }
  .stacked td:empty { display: none }
  .stacked td::before { content: attr(data-head) '\\a0 '; color: var(--muted); font-size: 0.875rem }
}
@media print {
  @page { margin: 15mm }
  body { padding: 0; max-width: none; font-size: 10pt }
  h1 { font-size: 20pt } h2, h3, thead { break-after: avoid }
  section { margin-top: 2rem }
  figure, tr, .alarms li, .figures { break-inside: avoid }
  thead { display: table-header-group }
  details:not([open]) { display: none }
  .scroll { overflow: visible; max-height: none }
  table { font-size: 8.5pt } .wide { min-width: 0 } tbody th:not(.wide) { white-space: normal }
  svg, .alarms li { print-color-adjust: exact; -webkit-print-color-adjust: exact }
}
`
