"""``stallscope summary``: a recording on one screen, the verdict first."""

from __future__ import annotations

from pathlib import Path

from .command import described
from .options import Window, json_option, scope_options, sources_argument

_STATES = "window_ns, busy_ns, idle_ns, compute_ns, communication_ns, data_movement_ns, stall_ns"


@described(
    "summary",
    short="What a step is made of, why the device waited, what to do.",
    examples=(
        ("What a trace says, on one screen", "stallscope summary trace.json.gz"),
        ("All ranks of a job: a folder of traces, or several files", "stallscope summary traces/"),
        ("One slow step", "stallscope summary runs/today --step 7"),
        ("One rank, for a script", "stallscope summary runs/today --rank 0 --json"),
    ),
    output_keys={
        "verdict": "one sentence: what limits the step",
        "part": "what --step or --window chose, in words; empty for everything",
        "findings": (
            "list, the most time first: kind, title, rank, ranks, device_type, device_index, gives_back_ns, per, "
            "share_frac, evidence, slice_ids, file, line, function, line_source, advice, confidence; empty with --step "
            "or --window"
        ),
        "cold_starts": "list: rank, steps, total_ns, steady_step_ns (null: no steady step)",
        "identity": "what was run, where, with which versions",
        "world_size": "ranks of the job; null where not known",
        "overall": f"sum over the ranks: {_STATES}; the four states add up to window_ns, idle_ns is stall_ns",
        "overall_steady": "the same, summed over the steady steps of the devices; null without steps",
        "ranks": f"list: rank, status, host, slices, and of its devices taken together: {_STATES}",
        "devices": (
            f"list: rank, device_type, device_index (null: threads in a device's place), name, {_STATES}, steady (the "
            "same over its steady steps; null without), steady_steps, step_mean_ns, step_median_ns"
        ),
        "focus_rank": (
            "the rank that stalls, kernels and ops are about: the one that the others wait for if that is the first "
            "finding, else the one that stalls longest"
        ),
        "stalls": "its five largest groups, as in `stalls --by line`, with per_step_ns (null without steps)",
        "kernels": "its five kernels with most time, as in `kernels`",
        "ops": "its five ops with most time, as in `ops`",
        "kernels_of": "what those two are about, in words",
        "memory": "list by rank and device: peaks, as in `memory`",
        "collectives": (
            "over all ranks: parts, total_ns, wait_for_peer_ns, transfer_ns (null: withheld), unknown_ns, error_ns, "
            "lower_bound, peer, peer_wait_ns, reason; null without collectives"
        ),
        "waits_of_rank": "rank -> how long it waited for the last rank to arrive in collectives, ns",
        "waits_for_rank": "rank -> how long all others waited for it, ns",
        "losses": "counts by severity: data_loss, warning, info",
        "notes": "what to know to read the rest",
    },
)
@sources_argument
@scope_options
@json_option
def command(
    sources: tuple[Path, ...],
    ranks: tuple[int, ...] | None,
    step: int | None,
    window: Window | None,
    as_json: bool,
) -> None:
    """Say on one screen what a step is made of, why the device waited, and what to do about it.

    Steps that compile or warm up are told apart from the steady ones and are in no average.
    """
    from ..analysis.summary import summary, summary_document
    from .opening import opened, scope_of, source_name

    recording = opened(sources)
    scope = scope_of(recording, ranks, step, window)
    found = summary(recording, ranks=scope.ranks, step=scope.step, window=scope.window)
    if as_json:
        from .rendering.json_output import print_json

        print_json(summary_document(found))
        return
    from .rendering.page import page
    from .summary_page import print_summary

    print_summary(page(), source_name(sources), found)
