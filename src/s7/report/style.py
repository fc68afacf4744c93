"""The page's looks, light and dark, wide and narrow."""

CSS = """
:root { color-scheme: light dark; --page: #fcfcfa; --card: #ffffff; --ink: #22252b; --soft: #5b616c; --faint: #d8dade;
  --truth: #6d7380; --hit: 29 95 209; --miss: 214 96 14; --shade: .55;
  --c1: #1d5fd1; --c2: #c2570c; --c3: #15803d; --c4: #8b3fc7; --c5: #c81e4a; --c6: #0e7490; --c7: #8a5a00;
  --c8: #4b5563; }
@media (prefers-color-scheme: dark) { :root { --page: #14161a; --card: #1b1e24; --ink: #e4e6ea; --soft: #a3a9b4;
  --faint: #3a3f48; --truth: #a9afba; --hit: 64 126 240; --miss: 224 122 44; --shade: .6;
  --c1: #74a8ff; --c2: #f59a4e; --c3: #5fd08a; --c4: #c79bff; --c5: #ff8097; --c6: #4cc9e0; --c7: #e0b95c;
  --c8: #b4bcc9; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 1.05rem/1.6 Charter, "Bitstream Charter", "Source Serif 4", Cambria, Georgia, serif; }
main { max-width: 54rem; margin: 0 auto; padding: 3rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; text-wrap: balance;
  overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; margin: 3.25rem 0 .5rem; overflow-wrap: anywhere; }
h3 { font-size: 1.1rem; margin: 2.25rem 0 .25rem; }
p, figcaption { max-width: 44rem; }
p { margin: .75rem 0; overflow-wrap: break-word; }
a { color: var(--c1); }
.eyebrow { color: var(--soft); font-size: .95rem; margin: 0 0 .35rem; }
.lead { font-size: 1.15rem; color: var(--soft); margin: 0 0 1.5rem; }
.note { font-size: .95rem; color: var(--soft); }
.note b { color: var(--ink); font-weight: 600; }
.badge { background: var(--c2); color: var(--page); border-radius: .3rem; padding: .1rem .5rem; font-size: .95rem; }
.eyebrow, .badge, .cards, nav, table, pre, svg text {
  font-family: system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif !important; }
.cards { display: flex; flex-wrap: wrap; gap: .75rem; align-items: stretch; margin: 1.25rem 0; }
.card { background: var(--card); border: 1px solid var(--faint); border-radius: .6rem; padding: .8rem 1.1rem;
  display: flex; flex-direction: column; justify-content: flex-end; flex: 1 1 9rem; }
.card b { font-size: 1.35rem; line-height: 1.2; font-weight: 600; font-variant-numeric: tabular-nums; }
.card.large { flex: 2 1 15rem; }
.card.large b { font-size: 2.6rem; letter-spacing: -.02em; color: var(--c1); }
.card span { color: var(--soft); font-size: .88rem; line-height: 1.35; margin-top: .3rem; }
nav { font-size: .92rem; margin-top: 1.5rem; }
nav ul { list-style: none; padding: 0; margin: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; min-width: 60%; font-variant-numeric: tabular-nums; font-size: .92rem;
  line-height: 1.4; }
caption { text-align: left; color: var(--soft); padding: 0 0 .4rem; }
th, td { padding: .4rem .7rem; text-align: right; border-bottom: 1px solid var(--faint); white-space: nowrap; }
thead th { font-weight: 600; color: var(--soft); vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tbody th { font-weight: 400; }
tr.best > * { font-weight: 650; }
.settings { width: 100%; table-layout: fixed; }
.settings td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.settings th { width: 11rem; color: var(--soft); white-space: normal; overflow-wrap: anywhere; vertical-align: top; }
.dot { display: inline-block; width: .65em; height: .65em; border-radius: 50%; margin-right: .55em; }
.confusion { min-width: 0; }
.confusion th, .confusion td { border: 1px solid var(--faint); text-align: center; padding: .3rem .45rem;
  min-width: 2.4rem; }
.confusion thead td, .confusion tbody th { border: 0; text-align: right; padding-left: 0; white-space: nowrap;
  color: var(--soft); }
.confusion thead th { border: 0; font-weight: 400; }
.confusion.many { font-size: .66rem; }
.confusion.many td { padding: .1rem 0; min-width: 1.12rem; height: 1.25rem; }
.confusion.many thead th span { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; }
.confusion.many thead th { padding: .1rem 0; min-width: 0; line-height: 1; }
.confusion.many tbody th { padding: 0 .4rem 0 0; min-width: 0; }
.confusion.many td.bar, .confusion.many td.total { padding: 0 .35rem; min-width: 0; }
.confusion .hit { background: rgb(var(--hit) / calc(var(--p) * var(--shade))); }
.confusion .miss { background: rgb(var(--miss) / calc(var(--p) * var(--shade))); }
.confusion td.bar { background: linear-gradient(rgb(var(--hit) / .28), rgb(var(--hit) / .28)) left / calc(var(--p) *
  100%) 100% no-repeat; text-align: right; min-width: 4.2rem; }
.confusion td.total { color: var(--soft); text-align: right; }
figure { margin: 1rem 0 1.75rem; }
figure .wide { background: var(--card); border: 1px solid var(--faint); border-radius: .6rem; padding: .75rem;
  margin: 0; }
figure svg { display: block; width: 100%; min-width: 36rem; height: auto; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figure svg image { image-rendering: pixelated; }
sub { line-height: 0; }
figcaption { color: var(--soft); font-size: .95rem; line-height: 1.5; margin-top: .6rem; }
code, pre { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace !important; font-size: .88rem; }
pre { background: var(--card); border: 1px solid var(--faint); border-radius: .6rem; padding: .7rem .9rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
footer { margin-top: 3rem; border-top: 1px solid var(--faint); color: var(--soft); font-size: .9rem; }
:focus-visible { outline: 2px solid var(--c1); outline-offset: 2px; }
@media (max-width: 40rem) { main { padding: 1.5rem 1rem 3rem; } h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; }
  .card.large b { font-size: 2.1rem; } .settings th { width: 9rem; } }
@media print { .wide { overflow: visible; } figure, tr { break-inside: avoid; } nav { display: none; } }
"""
