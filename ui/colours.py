"""The colours of states, causes and categories, as in the timeline (ui/timeline/src/theme.js)."""

from __future__ import annotations

BAND_COLOURS = {
    "compute": "#76AB7A",
    "communication": "#CC79A7",
    "data_movement": "#C4A262",
    "stall": "#E07B39",
    "input": "#E69F00",
    "cpu_fallback": "#D55E00",
    "compile": "#9467BD",
    "synchronization": "#009E73",
    "allocation": "#F0E442",
    "launch": "#56B4E9",
    "dispatch": "#0072B2",
    "python": "#4091D2",
    "gc": "#B4783C",
    "io": "#966E3C",
    "lock": "#DC3C78",
    "preempted": "#C85050",
    "overhead": "#787878",
    "dependency": "#8C96A0",
    "kernel_gap": "#6E7680",
    "copy": "#C4A262",
    "wait_for_peer": "#CC79A7",
    "tail": "#60666E",
    "unknown": "#50545A",
}
"""The colour of each state and cause."""

SLICE_COLOURS = {
    "op": "#5C84BA",
    "python": "#8693A3",
    "module": "#549AA3",
    "annotation": "#7884B2",
    "runtime": "#A092B2",
    "kernel": "#76AB7A",
    "graph": "#649E82",
    "memcpy": "#C4A262",
    "memset": "#B29A70",
    "dma": "#C4A262",
    "collective": "#BA809C",
    "instruction": "#76AB7A",
    "synchronization": "#BE7860",
    "allocation": "#BAB26E",
    "compile": "#A07ABE",
    "fallback": "#C86E6E",
    "input": "#C89E54",
    "gc": "#96788C",
    "io": "#968C6E",
    "overhead": "#787878",
}
"""The colour of a slice of each category."""

UNKNOWN_COLOUR = "#80848A"
"""Of anything else."""
