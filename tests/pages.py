"""What tests ask a host's pages."""

from __future__ import annotations

import contextlib
import http.client
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families


def get(url: str, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    """The status, the text and the headers of a page."""
    address = urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)) as connection:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode(), dict(response.getheaders())


def metrics(url: str) -> dict[str, float]:
    """Every sample of /metrics, by its name and what its labels say."""
    status, text, headers = get(url, "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
