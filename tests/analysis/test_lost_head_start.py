"""Who lost the head start that would have hidden a delay: hand-made timelines, exact in microseconds."""

from __future__ import annotations

from typing import Any

import pandas as pd

from stallscope.analysis.findings import findings
from stallscope.analysis.stall_reasons import stall_reasons
from stallscope.analysis.why import why_at
from tests.analysis.test_stalls import US, Scene

FREE, TAKE, WAIT = "cudaFree", "cudaMalloc", "cudaDeviceSynchronize"
TO_DEVICE = {"name": "Memcpy HtoD (Pageable -> Device)", "category": "memcpy", "call_name": "cudaMemcpyAsync"}


LAUNCHED = [("launch", "launch", "", 5), ("dispatch", "dispatch", "", 5)]


def owed(scene: Scene) -> list[tuple[str, str, str, int]]:
    """Cause, root cause, second cause and length of each row."""
    frame = scene.rows()
    causes = frame[["cause", "root_cause", "co_cause"]].fillna("").to_numpy().tolist()
    return [(*names, int(dur) // US) for names, dur in zip(causes, frame["dur"], strict=True)]


def total(rows: list[tuple[str, str, str, int]], place: int) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in rows:
        sums[row[place]] = sums.get(row[place], 0) + row[3]
    return sums


def test_memory_that_is_asked_for_behind_a_busy_device_takes_head_start() -> None:
    scene = Scene()
    scene.kernel(0, 10, 300)
    scene.host(TAKE, "allocation", 100, 200)
    scene.host("aten::mm", "op", 300, 260)
    scene.kernel(560, 570)
    # 310 to 570 is idle, and 200 of it would have been hidden, had the call not held the host up.
    assert owed(scene) == [("dispatch", "allocation", "", 200), ("dispatch", "dispatch", "", 50), *LAUNCHED]


def test_a_wait_right_before_memory_goes_back_is_a_part_of_giving_back() -> None:
    scene = Scene()
    scene.kernel(0, 10, 1000)
    wait = scene.host(WAIT, "synchronization", 500, 515)
    scene.host(FREE, "allocation", 1016, 284)
    scene.host("aten::mm", "op", 1300, 100)
    scene.kernel(1400, 1410)
    # What the wait took is not used up by the call that it was for: all 110 after that are owed by it.
    rows = owed(scene)
    assert total(rows, 1) == {"allocation": 400}
    assert {row[2] for row in rows} == {""}
    frame = scene.rows()
    assert set(frame.loc[frame["cause"] == "dispatch", "root_slice_id"]) == {wait}


def test_a_wait_right_after_memory_went_back_is_a_part_of_giving_back() -> None:
    for pause, expected in ((5, {"allocation": 430}), (30, {"allocation": 100, "synchronization": 330})):
        scene = Scene()
        scene.kernel(0, 10, 500)
        scene.host(FREE, "allocation", 100, 510)
        scene.host(WAIT, "synchronization", 610 + pause, 5)
        scene.host("aten::mm", "op", 650, 280)
        scene.kernel(930, 940)
        # The device was busy for 410 of the call, so that all of the gap is owed; the wait finds it idle.
        assert total(owed(scene), 1) == expected


def test_a_wait_that_is_not_followed_at_once_is_a_wait() -> None:
    for between in ("op", "python"):
        scene = Scene()
        scene.kernel(0, 10, 1000)
        scene.host(WAIT, "synchronization", 500, 515)
        scene.host("aten::empty", between, 1016, 200)
        scene.host(FREE, "allocation", 1020, 100)
        scene.kernel(1230, 1240)
        rows = owed(scene)
        assert ("allocation", "allocation", "synchronization", 100) in rows
        assert total(rows, 1) == {"allocation": 100, "synchronization": 130}


def test_memory_asked_for_again_is_owed_by_the_call_that_gave_it_back() -> None:
    scene = Scene()
    scene.kernel(0, 10, 500)
    given_back = scene.host(FREE, "allocation", 20, 10)
    scene.host(TAKE, "allocation", 100, 300)
    scene.host("aten::mm", "op", 400, 200)
    scene.kernel(600, 610)
    frame = scene.rows()
    assert set(frame["root_cause"]) == {"allocation"}
    assert set(frame["root_slice_id"]) == {given_back}


def fallback(scene: Scene, ts: int, *, dur: int = 400) -> None:
    scene.host("aten::cumsum", "op", ts, dur)
    scene.host("aten::_to_cpu", "fallback", ts + 1, dur - 2)


def gaps_after_a_hidden_fallback_and_a_wait(*, of_its_own: bool) -> dict[str, int]:
    scene = Scene()
    scene.kernel(0, 10, 1000)
    fallback(scene, 100)
    if of_its_own:
        fallback(scene, 899, dur=113)
    scene.host(WAIT, "synchronization", 910, 101)
    scene.host("aten::mm", "op", 1012, 438)
    scene.kernel(1450, 1460)
    return total(owed(scene), 1)


def test_a_wait_takes_over_what_was_hidden_before_it() -> None:
    # With the fallback or without, the host would have waited there until 1010.
    assert gaps_after_a_hidden_fallback_and_a_wait(of_its_own=False) == {"synchronization": 450}


def test_a_wait_does_not_take_over_what_the_same_cause_hid() -> None:
    # Without fallbacks there is no such wait: all is theirs.
    assert gaps_after_a_hidden_fallback_and_a_wait(of_its_own=True) == {"cpu_fallback": 450}


def test_of_two_delays_of_the_host_the_earlier_is_the_second_cause_as_far_as_it_was_hidden() -> None:
    scene = Scene()
    scene.kernel(0, 10, 500)
    fallback(scene, 50, dur=300)
    scene.host("aten::mm", "op", 400, 50)
    scene.host("aten::mm", "op", 1450, 50)
    scene.kernel(1500, 1510)
    # Python from 450 to 1450, 60 of it hidden. Without the fallback the host would have been 300 earlier: as much of
    # the gap is gone without either; what follows is owed by what was hidden last.
    rows = owed(scene)
    assert ("python", "python", "cpu_fallback", 300) in rows
    assert ("python", "python", "", 640) in rows
    assert total(rows, 1) == {"python": 1000}


def test_a_copy_that_holds_its_call_and_the_device_takes_no_head_start() -> None:
    scene = Scene()
    scene.kernel(0, 10, 100)
    scene.kernel(60, 110, 300, call_dur=450, **TO_DEVICE)
    scene.host("aten::mm", "op", 510, 90)
    scene.kernel(600, 610)
    # Its call waited for 50 of the kernel, and then for the copy alone, which is lost time of its own.
    rows = owed(scene)
    assert ("copy", "copy", "", 300) in rows
    assert total(rows, 1) == {"copy": 300, "synchronization": 105, "dispatch": 90, "launch": 5}


def test_what_is_left_of_a_call_after_the_copy_that_held_it_is_the_return_from_a_wait() -> None:
    scene = Scene()
    scene.kernel(0, 10, 100)
    scene.kernel(120, 130, 300, call_dur=400, **TO_DEVICE)
    scene.kernel(520, 530)
    returned: Any = scene.rows().query("ts == 430_000").iloc[0]
    assert (returned["cause"], returned["root_cause"], returned["dur"]) == (
        "synchronization",
        "synchronization",
        90_000,
    )
    assert pd.isna(returned["co_cause"])


def python_then_a_wait_on_an_idle_device() -> Scene:
    scene = Scene()
    scene.kernel(0, 10, 500)
    scene.host("aten::mm", "op", 90, 10)
    scene.host(WAIT, "synchronization", 1100, 1)
    scene.host("aten::mm", "op", 1101, 299)
    scene.kernel(1400, 1410)
    return scene


def test_what_comes_back_only_if_two_delays_go_is_the_waits_and_no_finding() -> None:
    # Python from 100 to 1100, 410 of it hidden. Without it the host would have waited from 100 to 510 instead; without
    # the wait it would have come to the device's end all the same. Only without both it would have been ahead.
    scene = python_then_a_wait_on_an_idle_device()
    assert total(owed(scene), 1) == {"python": 590 + 5, "synchronization": 305}
    frame = scene.rows()
    late = frame[frame["root_cause"] == "synchronization"]
    assert late["reason"].str.contains("only if both go").all() and late["co_cause"].isna().all()
    promised = {one.kind: one.gives_back_ns // US for one in findings(scene.trace.recording()).findings}
    assert promised == {"python": 595}


def test_a_long_delay_does_not_use_up_what_a_wait_took() -> None:
    scene = Scene()
    scene.kernel(0, 10, 800)
    scene.host(WAIT, "synchronization", 310, 500)
    scene.host("enumerate(DataLoader)#x", "input", 810, 600)
    scene.host("aten::mm", "op", 1410, 190)
    scene.kernel(1600, 1610)
    # Of the load 500 are hidden without the wait; then its head start is used up. Without the load the wait is why the
    # 200 after it are idle. So without either alone they stay.
    rows = owed(scene)
    assert ("input", "input", "synchronization", 500) in rows
    assert total(rows, 1) == {"input": 605, "synchronization": 195}
    reasons = stall_reasons(scene.trace.recording())
    assert {one.kind: one.second_ns // US for one in reasons} == {"input": 0, "synchronization": 500}


def launches_after_a_wait(kernel: int, *, delayed: bool = False) -> set[tuple[str, str]]:
    """Root and second cause of the dispatch after a hundred launches, one every 100 us, of kernels of that length."""
    scene = Scene()
    scene.kernel(0, 10, 20_000)
    scene.host(WAIT, "synchronization", 20, 19_995)
    for n in range(100):
        scene.kernel(20_100 + 100 * n, 20_110 + 100 * n, kernel)
    if delayed:
        fallback(scene, 30_040, dur=1000)
    for n in range(10):
        start = 30_100 + 100 * n + delayed * 1000
        scene.kernel(start, start + 10, kernel)
    frame = scene.rows()
    late = frame[(frame["ts"] > (30_000 + delayed * 1100) * US) & (frame["cause"] == "dispatch")]
    return set(late[["root_cause", "co_cause"]].fillna("").itertuples(index=False, name=None))


def test_launches_that_could_not_keep_up_keep_their_own_cause() -> None:
    assert launches_after_a_wait(30) == {("dispatch", "synchronization")}
    assert launches_after_a_wait(60) == {("synchronization", "")}


def test_launches_that_could_not_keep_up_name_no_second_cause_that_needs_a_third_to_go() -> None:
    scene = Scene()
    scene.kernel(0, 10, 20_000)
    scene.host("aten::mm", "op", 90, 10)
    scene.host(WAIT, "synchronization", 20_020, 1)  # finds the device idle; 19 ms of Python before it were hidden
    for n in range(100):
        scene.kernel(20_100 + 100 * n, 20_110 + 100 * n, 30)
    frame = scene.rows()
    late = frame[(frame["ts"] > 29_000 * US) & (frame["cause"] == "dispatch")]
    assert set(late["root_cause"]) == {"dispatch"} and late["co_cause"].isna().all()
    early = frame[frame["ts"] < 22_000 * US]
    assert early["reason"].str.contains("only if both go").any()


def test_a_delay_among_launches_does_not_make_them_slow() -> None:
    # 64 launches and the fallback took 7400, the kernels 3520; the launches alone 6400.
    assert launches_after_a_wait(55, delayed=True) <= {("cpu_fallback", ""), ("synchronization", "")}


def promised(scene: Scene) -> dict[str, int]:
    return {one.kind: one.gives_back_ns // US for one in findings(scene.trace.recording()).findings}


def a_wait_then_a_load(*, another: str = "", apart: bool = True) -> Scene:
    """A wait takes 500, a second one, in another function or not, finds the device idle, and a load of 600 follows."""
    scene = Scene()
    for place, start, end in ((7, 0, 815), (20, 815, 3000)) if apart else ((7, 0, 3000),):
        scene.trace.python(scene.main, f"train.py({place}): part", start * US, (end - start) * US)
    scene.kernel(0, 10, 800)
    scene.host(WAIT, "synchronization", 310, 500)
    if another:
        scene.host(another, "synchronization", 820, 5)
    scene.host("enumerate(DataLoader)#x", "input", 830, 600)
    scene.host("aten::mm", "op", 1430, 170)
    scene.kernel(1600, 1610)
    return scene


def test_a_second_cause_is_a_finding_of_its_own_that_names_the_first() -> None:
    scene = a_wait_then_a_load()
    rows = owed(scene)
    assert ("input", "input", "synchronization", 480) in rows
    by_kind = {one.kind: one for one in findings(scene.trace.recording()).findings}
    assert by_kind["input"].gives_back_ns > by_kind["synchronization"].gives_back_ns == 500 * US
    told = "would also be gone without input, its first cause, and is in the finding about that as well"
    assert told in by_kind["synchronization"].evidence
    assert "its first cause" not in by_kind["input"].evidence


def test_a_wait_at_another_place_ties_what_was_taken_before() -> None:
    # Without the first wait the host would have come to the second one 500 earlier, and waited there: the load stays.
    # Without both it is gone as well: the load has them for its second cause, together.
    scene = a_wait_then_a_load(another=WAIT)
    assert ("input", "input", "synchronization", 480) in owed(scene)
    frame = scene.rows()
    tied = frame["dur"][frame["reason"].str.contains("a wait at another place")].sum()
    twice = frame["dur"][frame["reason"].str.contains("another delay")].sum()
    second = frame["co_cause"].notna()
    assert set(frame["reason"][second]) == {
        "without its second cause it comes back only if the waits at other places go as well"
    }
    by_kind = {one.kind: one for one in stall_reasons(scene.trace.recording())}
    assert by_kind["synchronization"].together_ns == twice + 500 * US
    assert tied + frame["dur"][second].sum() == 500 * US
    also = by_kind["input"].also
    assert also is not None and (also.name, also.dur) == ("several_waits", 480 * US)
    by_kind = {one.kind: one for one in findings(scene.trace.recording()).findings}
    several = by_kind["several_waits"]
    assert (several.gives_back_ns, several.line) == (500 * US, None)
    assert "train.py:7" in several.evidence and "without input, its first cause" in several.evidence
    assert "most of it would also be gone without the waits" in by_kind["input"].evidence


def test_of_a_load_what_one_wait_would_hide_is_apart_from_what_needs_both_to_go() -> None:
    scene = Scene()
    for place, start, end in ((7, 0, 515), (20, 515, 3000)):
        scene.trace.python(scene.main, f"train.py({place}): part", start * US, (end - start) * US)
    scene.kernel(0, 10, 800)
    scene.host(WAIT, "synchronization", 310, 200)
    scene.host(WAIT, "synchronization", 520, 291)
    scene.host("enumerate(DataLoader)#x", "input", 811, 600)
    scene.kernel(1411, 1420)
    frame = scene.rows()
    load = frame[frame["cause"] == "input"]
    tied = load["reason"].str.contains("waits at other places")
    assert load["dur"][load["co_cause"].notna() & ~tied].sum() == 289 * US
    assert load["dur"][tied].sum() == 200 * US


def test_a_chain_names_all_waits_that_would_have_to_go() -> None:
    scene = a_wait_then_a_load(another=WAIT)
    load = int(scene.rows().query("co_cause == 'synchronization'")["ts"].iloc[0])
    chain = why_at(scene.trace.recording(), load)
    assert chain.co_cause == "synchronization" and chain.reason.endswith("go as well")
    assert "and the waits at other places the stall would be gone as well" in chain.links[-1].text


def test_waits_at_one_place_add_up() -> None:
    scene = a_wait_then_a_load(another=WAIT, apart=False)
    assert any(row[2] == "synchronization" for row in owed(scene))
    assert promised(scene)["synchronization"] >= 480
