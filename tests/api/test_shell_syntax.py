"""Syntax of bash under /bin/sh is found, and what sh knows is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.api.kubelet_expansion import halved_dollars
from kaiwo.api.shell_syntax import almost_shebang, bash_syntax


@pytest.mark.parametrize(
    ("script", "line", "words"),
    [
        ("if [[ $A == b ]]; then echo; fi", 1, "[["),
        ("cd /work\nfiles=(a b)\n", 2, "an array"),
        ("set -euo pipefail", 1, "pipefail"),
        ("set -e -o pipefail\npython a.py", 1, "pipefail"),
        ("cd /\nsource env.sh", 2, "source"),
        ("function f { echo; }", 1, "function"),
        ("diff <(ls a) <(ls b)", 1, "a process substitution"),
        ("cat <<< text", 1, "<<<"),
        ("python a.py &> log", 1, "&>"),
        ("for i in {1..8}; do echo; done", 1, "a {1..9} range"),
        ("(( a = 1 ))", 1, "(("),
        ("echo ${name,,}", 1, "an expansion of bash"),
        ("declare -A map", 1, "a command of bash"),
    ],
)
def test_syntax_of_bash_is_found_with_its_line(script: str, line: int, words: str) -> None:
    """dash, which is /bin/sh of most images, stops at these or does something else."""
    assert bash_syntax(script) == (line, words)


@pytest.mark.parametrize(
    "script",
    [
        "python train.py --lr 3",
        "if [ \"$A\" = b ]; then echo '[[ not syntax ]]'; fi",
        'echo "a=(1 2)"',
        "# set -o pipefail, said a comment",
        "set -eu",
        "x=$((1 + 2)); echo ${x}",
        "f() { echo; }; f",
        "python - <<'EOF'\na=[[1], [2]]\nb=(1, 2)\nfor i in {1}: source = i\nEOF\necho done",
        "torchrun --nproc 8 train.py > log 2>&1 &",
        "grep '[[:space:]]' file",
        "echo ${x:-default} ${x%.py} {a,b}",
        "python -c 'x = [[1]]'",
        "resource allocate",
        "case $x in a) echo;; esac",
    ],
)
def test_what_sh_knows_is_left_alone(script: str) -> None:
    """A warning about a good script would teach people to ignore warnings."""
    assert bash_syntax(script) is None


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#/bin/bash\nx", 'write "#!/bin/bash"'),
        ("# !/bin/bash\nx", 'write "#!/bin/bash"'),
        ("!#/bin/bash\nx", 'write "#!/bin/bash"'),
        ("# job\n#!/bin/bash\nx", "move it there"),
        ("#!/bin/bash\nx", ""),
        ("# a comment\npython a.py", ""),
        ("", ""),
    ],
)
def test_a_line_that_was_meant_to_name_the_shell(script: str, words: str) -> None:
    """Without it the script runs under /bin/sh, and nothing says so."""
    said = almost_shebang(script)
    assert (words in said) if words else said == ""


@given(st.text())
def test_no_text_makes_it_fail(script: str) -> None:
    """Scripts are anything."""
    found = bash_syntax(script)
    assert found is None or 1 <= found[0] <= script.count("\n") + 1
    assert isinstance(almost_shebang(script), str)


@pytest.mark.parametrize(
    "piece",
    ["<<A\n", "<<A ", "<<'A\n", "set -", "set - ", "'\"", '"\\', "\n;\t", "<<A\nA\n", "${a", "{1..", "# "],
)
def test_a_long_script_is_read_in_one_pass(piece: str) -> None:
    """A webhook reads what anybody sends: time that grows with the square of a script would stop it."""
    script = piece * (1_000_000 // len(piece))
    assert bash_syntax(script) is None
    assert halved_dollars("$(" * 500_000) is None


def test_a_here_document_ends_at_its_own_word() -> None:
    """A longer word does not end it, and what comes after it is read; one without an end is none."""
    assert bash_syntax("cat <<EOF\nEOFS\n[[ a ]]\n  EOF\t\nsource x") == (5, "source")
    assert bash_syntax("cat <<-'E N'\n[[ a ]]\n") == (2, "[[")
    assert bash_syntax("cat <<EOF\n[[ a ]]\n") == (2, "[[")
