"""Reading Prometheus text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.plugin.vendors import Utilization
from kaiwo.workload.monitoring import samples as samples_module
from kaiwo.workload.monitoring.prometheus_text import LONGEST_LINE, TextReader
from kaiwo.workload.monitoring.samples import Samples, TooManySamplesError, meanings

AMD = Utilization(
    "gpu_gfx_activity", gpu_labels=("gpu_id",), memory_used="gpu_used_vram", memory_total="gpu_total_vram"
)
NVIDIA = Utilization("DCGM_FI_DEV_GPU_UTIL", gpu_labels=("gpu",), memory_used="USED", memory_free="FREE")
NOW = 1_800_000_000.0


def read(text: str | bytes, *, pieces: int = 1 << 20, unit: float = 0.001) -> tuple[Samples, TextReader]:
    """What a text says, taken in pieces of some bytes."""
    body = text.encode() if isinstance(text, str) else text
    found = Samples()
    reader = TextReader(meanings([AMD, NVIDIA]), found, oldest=NOW - 90, newest=NOW + 5, unit=unit)
    for at in range(0, len(body), pieces):
        reader.feed(body[at : at + pieces])
    reader.close()
    return found, reader


def uses(found: Samples, namespace: str = "team", pod: str = "train") -> list[float | None]:
    """Utilization of a pod's GPUs."""
    return sorted((gpu.use for gpu in found.of_pod(namespace, pod)), key=str)


REAL = """\
# HELP gpu_gfx_activity Graphics engine usage percentage (0-100).
# TYPE gpu_gfx_activity gauge
gpu_gfx_activity{card_model="102-G30211-0C",gpu_id="0",namespace="team",pod="train",hostname="n1"} 7
gpu_gfx_activity{card_model="102-G30211-0C",gpu_id="1",namespace="team",pod="train",hostname="n1"} 93.5
gpu_gfx_activity{card_model="102-G30211-0C",gpu_id="2",namespace="",pod="",hostname="n1"} 0
gpu_used_vram{gpu_id="0",namespace="team",pod="train"} 1024
gpu_total_vram{gpu_id="0",namespace="team",pod="train"} 4096
gpu_power_usage{gpu_id="0",namespace="team",pod="train"} 120
"""


@pytest.mark.parametrize("pieces", [1, 7, 1 << 20])
def test_gpus_of_a_pod_are_read_whatever_the_pieces(pieces: int) -> None:
    """Answers arrive in pieces of any size; a GPU that no pod holds is of no workload."""
    found, reader = read(REAL, pieces=pieces)
    assert uses(found) == [7.0, 93.5]
    assert [gpu.memory for gpu in found.of_pod("team", "train") if gpu.use == 7] == [25.0]
    assert (len(found), reader.unreadable) == (1, 0)


def test_other_vendors_metrics_are_read_beside_each_other() -> None:
    """A cluster may have both; memory is given as used and free by one."""
    found, _ = read(
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",namespace="team",pod="train"} 50\n'
        'USED{gpu="0",namespace="team",pod="train"} 30\nFREE{gpu="0",namespace="team",pod="train"} 10\n'
    )
    (gpu,) = found.of_pod("team", "train")
    assert (gpu.use, gpu.memory) == (50.0, 75.0)


@pytest.mark.parametrize("value", ["NaN", "-1", "100.1", "1e308", "+Inf", "-Inf", "1e999"])
def test_what_is_no_percentage_is_no_figure(value: str) -> None:
    """It is counted, and the GPU has no utilization, also if another sample of it looks right."""
    line = 'gpu_gfx_activity{gpu_id="0",namespace="team",pod="train"}'
    found, _ = read(f"{line} {value}\n{line} 3\n")
    (gpu,) = found.of_pod("team", "train")
    assert gpu.absurd
    assert found.absurd == 1


def test_samples_that_are_old_or_from_the_future_are_left_out() -> None:
    """Times are milliseconds, in OpenMetrics seconds; without a time a sample is of now."""
    line = 'gpu_gfx_activity{gpu_id="%d",namespace="team",pod="train"} %d %s'
    at = [NOW - 3600, NOW, NOW + 3600]
    for unit in (0.001, 1.0):
        text = "\n".join(line % (n, n, f"{moment / unit:.0f}") for n, moment in enumerate(at))
        found, _ = read(text, unit=unit)
        assert (uses(found), found.stale) == ([1.0], 2)


@pytest.mark.parametrize(
    "line",
    [
        'gpu_gfx_activity{gpu_id="0",namespace="team",pod="train" 5',
        'gpu_gfx_activity{gpu_id="0",namespace="team",pod="train"}',
        'gpu_gfx_activity{gpu_id="0",namespace="team",pod="train"} five',
        'gpu_gfx_activity{gpu_id="0",namespace="team",pod="train"} 1_0',
        'gpu_gfx_activity{gpu_id="0",namespace="team",pod="other",pod="train"} 5',
        'gpu_gfx_activity{x y="a,pod=",namespace="team",gpu_id="0"} 5',
        'gpu_gfx_activity{"a,pod=",",namespace="team"} 5',
        'gpu_gfx_activity{gpu_id="0",namespace="team",pod=train} 5',
        'gpu_gfx_activity{gpu_id="0" namespace="team" pod="train"} 5',
        b'gpu_gfx_activity{gpu_id="0",namespace="team",pod="\\xff"} 5'.replace(b"\\xff", b"\xff"),
    ],
)
def test_a_line_that_is_no_sample_is_passed_over(line: str | bytes) -> None:
    """The lines around it count."""
    good = b'gpu_gfx_activity{gpu_id="1",namespace="team",pod="good"} 5\n'
    body = line.encode() if isinstance(line, str) else line
    found, reader = read(good + body + b"\n" + good)
    assert (uses(found, pod="good"), len(found), reader.unreadable) == ([5.0], 1, 1)


def test_a_label_cannot_pretend_to_be_another_one() -> None:
    """Whatever a user writes into the name of a container is a value, and stays one."""
    evil = 'x",pod="victim",namespace="other'
    written = evil.replace("\\", "\\\\").replace('"', '\\"')
    found, _ = read(f'gpu_gfx_activity{{container="{written}",gpu_id="0",namespace="team",pod="train"}} 5\n')
    assert uses(found) == [5.0]
    assert uses(found, "other", "victim") == []
    ends = 'gpu_gfx_activity{a="b,pod=",c=",namespace=",gpu_id="0",namespace="team",pod="train"} 5\n'
    assert uses(read(ends)[0]) == [5.0]


def test_escapes_are_undone() -> None:
    """As the format has them; names of pods have none, so these are other pods."""
    found, _ = read(r'gpu_gfx_activity{gpu_id="0",namespace="te\\am",pod="a\"b\nc"} 5')
    assert uses(found, "te\\am", 'a"b\nc') == [5.0]


def test_the_exporters_labels_win_over_those_of_its_own_pod() -> None:
    """Prometheus renames the exporter's labels where it has such a label of the scraped pod."""
    found, _ = read(
        'gpu_gfx_activity{gpu_id="0",namespace="gpu-operator",pod="exporter-1",'
        'exported_namespace="team",exported_pod="train"} 5\n'
    )
    assert uses(found) == [5.0]
    assert len(found) == 1


def test_one_name_in_two_namespaces_is_two_pods() -> None:
    """The namespace belongs to the name; a sample without one is of nobody."""
    line = 'gpu_gfx_activity{gpu_id="0",namespace="%s",pod="train"} %d\n'
    found, _ = read(
        line % ("team", 5) + line % ("other", 90) + 'gpu_gfx_activity{gpu_id="0",pod="train"} 1\n'
    )
    assert (uses(found), uses(found, "other"), len(found)) == ([5.0], [90.0], 2)


def test_of_two_samples_of_one_gpu_the_higher_counts() -> None:
    """Nobody makes a busy GPU idle by writing another sample of it."""
    line = 'gpu_gfx_activity{gpu_id="0",job="%s",namespace="team",pod="train"} %d\n'
    assert uses(read(line % ("a", 80) + line % ("b", 0))[0]) == [80.0]


def test_gpus_without_a_label_of_their_own_count_by_their_lines() -> None:
    """Another exporter may have another label; the number of GPUs is still right."""
    line = 'gpu_gfx_activity{card="%d",namespace="team",pod="train"} %d\n'
    assert uses(read(line % (0, 10) + line % (1, 20))[0]) == [10.0, 20.0]


def test_ten_megabytes_in_one_line_take_no_memory_and_no_time() -> None:
    """What comes after them is read."""
    good = b'\ngpu_gfx_activity{gpu_id="1",namespace="team",pod="train"} 5\n'
    long = b'gpu_gfx_activity{gpu_id="' + b'\\"' * 5_000_000
    began = time.process_time()
    found, reader = read(long + good, pieces=1 << 18)
    assert (uses(found), reader.unreadable) == ([5.0], 1)
    assert time.process_time() - began < 2
    short = b'gpu_gfx_activity{gpu_id="' + b'\\"' * (LONGEST_LINE // 3)
    assert uses(read(short + good)[0]) == [5.0]


def test_more_samples_than_gpus_in_the_world_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory has a bound."""
    monkeypatch.setattr(samples_module, "MOST_SAMPLES", 2)
    line = 'gpu_gfx_activity{gpu_id="%d",namespace="team",pod="train"} 5\n'
    with pytest.raises(TooManySamplesError):
        read("".join(line % number for number in range(3)))


PARTS = st.sampled_from(
    [
        "gpu_gfx_activity",
        "{",
        "}",
        '"',
        "\\",
        ",",
        "=",
        " ",
        "pod",
        "namespace",
        "gpu_id",
        "train",
        "5",
        "NaN",
    ]
)


@given(st.lists(PARTS | st.text(max_size=4), max_size=40).map("".join), st.integers(1, 9))
def test_no_text_breaks_the_reader(text: str, pieces: int) -> None:
    """Whatever it is, it is read to its end, and each sample is a percentage or absurd."""
    found, _ = read(text + '\ngpu_gfx_activity{gpu_id="9",namespace="last",pod="one"} 5\n', pieces=pieces)
    assert uses(found, "last", "one")[-1:] == [5.0]


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(body: bytes) -> None:
    """Not even those that are no text."""
    read(body)


@given(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
    st.floats(0, 100),
)
def test_what_the_format_can_write_is_read_back(namespace: str, pod: str, value: float) -> None:
    """For any text in a label."""

    def written(text: str) -> str:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    line = f'gpu_gfx_activity{{gpu_id="0",namespace="{written(namespace)}",pod="{written(pod)}"}} {value!r}\n'
    assert uses(read(line)[0], namespace, pod) == [value]
