"""The look of a report: dark and light by the reader's system, light on paper."""

from __future__ import annotations

STYLE = """
:root { --ground: #14171c; --panel: #1a1e25; --line: #2a303a; --text: #d7dce3; --dim: #8b95a3; --accent: #4c9bff;
  --heat: #e07b39; --strong: #ec8f52; color-scheme: dark; }
@media (prefers-color-scheme: light) { :root { --ground: #fff; --panel: #f6f7f9; --line: #dde1e7; --text: #1e242c;
  --dim: #5d6875; --accent: #0b63ce; --strong: #a84a0c; color-scheme: light; } }
@media print { :root { --ground: #fff; --panel: #fff; --line: #ccc; --text: #000; --dim: #444; --strong: #843b0a;
  color-scheme: light; } section { break-inside: avoid; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 20px 24px 40px; background: var(--ground); color: var(--text);
  font: 13px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums; }
h1 { font-size: 20px; margin: 4px 0 2px; } h2 { font-size: 14px; margin: 0 0 6px; } h3 { font-size: 13px; margin: 0; }
p { margin: 4px 0; } .note, .dim, .rail { color: var(--dim); }
code, .mono, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 12px; }
section { background: var(--panel); border: 1px solid var(--line); border-radius: 4px; padding: 12px 14px;
  margin-top: 14px; overflow-wrap: anywhere; }
ol { list-style: none; margin: 0; padding: 0; display: grid; gap: 10px; }
li { border: 1px solid var(--line); border-left: 3px solid var(--heat); border-radius: 3px; padding: 8px 12px;
  background: var(--ground); }
.apart { display: flex; justify-content: space-between; gap: 12px; }
.gain { color: var(--strong); font-weight: 600; white-space: nowrap; }
table { width: 100%; border-collapse: collapse; margin-bottom: 4px; }
th { text-align: left; font-weight: 500; color: var(--dim); }
th, td { padding: 3px 10px 3px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.number { text-align: right; white-space: nowrap; padding-left: 8px; overflow-wrap: normal; }
.stack { display: flex; width: 300px; height: 12px; margin-top: 3px; border-radius: 2px; overflow: hidden; }
.swatch { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 5px; }
.legend { display: flex; flex-wrap: wrap; gap: 3px 14px; margin: 2px 0 8px; color: var(--dim); }
.picture { display: block; width: 100%; height: auto; background: var(--ground); border: 1px solid var(--line); }
.picture text { font: 10px ui-monospace, "DejaVu Sans Mono", monospace; pointer-events: none; }
.picture .rail { fill: var(--dim); } .picture .on { fill: #0d1117; } .picture .rule { stroke: var(--line); }
.held { fill: var(--accent); fill-opacity: 0.25; stroke: var(--accent); stroke-width: 1; }
.reserved { fill: none; stroke: var(--dim); stroke-dasharray: 3 3; } .mark { stroke: var(--heat); stroke-width: 1.5; }
.source td { border: 0; padding: 0 8px; line-height: 17px; } .source .words { white-space: pre-wrap; width: 99%; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 0; } dd { margin: 0; }
dt { color: var(--dim); }
"""
