"""Which proxy the environment names for a URL."""

from __future__ import annotations

import pytest

from kaiwo.engine.proxy import environment_proxy, without_user

PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of URLs have a proxy, and nothing is excepted."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("http_proxy", PROXY)


@pytest.mark.parametrize(
    ("excepted", "url"),
    [
        ("10.96.0.0/12", "https://10.96.0.1:443"),
        ("192.168.0.0/16, 10.0.0.0/8", "https://10.1.2.3"),
        ("10.1.2.3", "https://10.1.2.3:6443"),
        ("10.1.2.3:6443", "https://10.1.2.3:6443"),
        ("fd00::/8", "https://[fd00::1]:6443"),
        ("[fd00::1]:6443", "https://[fd00::1]:6443"),
        ("fd00::1", "https://[fd00::1]"),
        ("cluster.example", "https://cluster.example"),
        ("cluster.example", "https://api.cluster.example:6443"),
        (".cluster.example", "https://api.cluster.example"),
        ("*.cluster.example", "https://api.cluster.example"),
        ("CLUSTER.example:443", "https://api.Cluster.example"),
        ("cluster.example:80", "http://cluster.example"),
        ("other, *", "https://anything.example"),
        ("", "https://localhost:6443"),
        ("", "http://127.0.0.2:8001"),
        ("", "https://[::1]:6443"),
    ],
)
def test_an_excepted_host_is_reached_without_the_proxy(
    excepted: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clusters except their networks by ranges of addresses; this machine is excepted always."""
    monkeypatch.setenv("NO_PROXY", excepted)
    assert environment_proxy(url) is None


@pytest.mark.parametrize(
    ("excepted", "url"),
    [
        ("10.96.0.0/12", "https://10.112.0.1"),
        ("10.96.0.0/99", "https://10.96.0.1"),
        ("10.1.2.3:6443", "https://10.1.2.3:443"),
        ("fd00::/8", "https://10.1.2.3"),
        ("cluster.example", "https://othercluster.example"),
        ("cluster.example:80", "https://cluster.example"),
        (" , :443, .", "https://cluster.example"),
        ("10.0.0.0/8", "https://cluster.example"),
    ],
)
def test_any_other_host_is_reached_through_the_proxy(
    excepted: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that means nothing excepts nothing."""
    monkeypatch.setenv("no_proxy", excepted)
    assert environment_proxy(url) == PROXY


def test_a_proxy_without_a_scheme_is_an_http_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """So administrators write it, and curl and kubectl take it."""
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    assert environment_proxy("https://cluster.example") == "http://proxy.example:3128"


def test_each_scheme_has_its_own_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of http is not used for https; an empty variable is none."""
    monkeypatch.setenv("HTTPS_PROXY", "")
    assert environment_proxy("https://cluster.example") is None
    assert environment_proxy("http://cluster.example") == PROXY


def test_messages_have_no_user_and_no_password() -> None:
    """A password may have an @ itself; what is no user stays."""
    text = "407, url='http://ada:s3cr@t@proxy:3128/' for https://x/y@z"
    assert without_user(text) == "407, url='http://proxy:3128/' for https://x/y@z"
