"""The file of hosts: what it says, who may read it, and how it is changed."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from glremote.host.serving import environment
from glremote.hosts import HEAD, Host, NoHost, Settings, add, default_file, read, remove, with_host
from glremote.protocol.errors import HostsFileError, HostUnreachable

PIN = "sha256:" + 64 * "a"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that is not there yet."""
    return tmp_path / "settings" / "hosts.toml"


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    """That file with a text."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_file_that_is_not_there(file: Path) -> None:
    assert read(file) == read(None) == Settings()
    with pytest.raises(HostsFileError, match="there is no host a in"):
        remove(file, "a")


def test_what_is_added_is_read(file: Path) -> None:
    hosts = (
        Host("wss://gpu-1:8765", "gpu-1", "t\"o'k\\en", pin=PIN),
        Host("ws://127.0.0.1:8765"),
        Host("wss://[::1]:8765", "six", ca=str(file.parent / "ca.pem")),
    )
    for host in hosts:
        assert not add(file, host)
    assert read(file) == Settings(hosts, "last")
    assert hosts[1].name == "127.0.0.1:8765"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert HEAD in file.read_text()
    assert "en" not in repr(hosts[0]).replace("token", "")
    assert remove(file, "gpu-1") == hosts[0]
    assert remove(file, "ws://127.0.0.1:8765/") == hosts[1]
    assert read(file).hosts == hosts[2:]


def test_a_host_that_is_there_is_replaced_and_a_name_is_one_s(file: Path) -> None:
    add(file, Host("ws://a:1", "a", "old"))
    add(file, Host("ws://b:1", "b"))
    before = add(file, Host("ws://a:1", "a", "new"))
    assert before is not None and before.name == "a"
    assert [host.token for host in read(file).hosts] == ["new", None]
    with pytest.raises(HostsFileError, match="a is ws://a:1 already"):
        add(file, Host("ws://c:1", "a"))
    with pytest.raises(ValueError, match="already"):
        with_host(read(file).hosts, Host("ws://c:1", "b"))


def test_what_a_person_wrote_stays(file: Path) -> None:
    written(file, '# mine\nlocal = "first"  # here\n\n[[host]] # the big one\nurl = "ws://a:1"\nca = "ca.pem"\n')
    add(file, Host("ws://b:1", "b", "secret"))
    assert read(file).local == "first"
    assert read(file).hosts[0].ca == str(file.parent / "ca.pem")
    remove(file, "b")
    text = file.read_text()
    assert "# mine" in text and "# here" in text and "# the big one" in text and "secret" not in text


BY_HAND = """# mine
local = "first"  # here

# the big one
[[host]]
name = "a"  # its name
url = "ws://a:1"
token = "t"

# the small one
[[host]]
url = "ws://b:1"
# a thought

# at the end
"""


def test_comments_stay_whatever_is_changed(file: Path) -> None:
    written(file, BY_HAND)
    add(file, Host("ws://c:1", "c"))
    assert file.read_text() == BY_HAND + '\n[[host]]\nname = "c"\nurl = "ws://c:1"\n'
    add(file, Host("ws://a:1", "a", pin=None))
    assert file.read_text().startswith(BY_HAND.replace('token = "t"\n', ""))
    for name in ("ws://b:1", "a", "c"):
        remove(file, name)
        comments = [line for line in BY_HAND.splitlines() if line.startswith("#")]
        assert [line for line in file.read_text().splitlines() if line.startswith("#")] == comments
    assert read(file) == Settings((), "first")


@pytest.mark.parametrize(
    "text",
    [
        'host = [{url = "ws://a:1", name = "a"}, {url = "ws://b:1"}]  # in one line\nlocal = "last"\n',
        'host = [\n  {url = "ws://a:1", name = "a"}, # one\n  {url = "ws://b:1"},\n]\n',
        '[["host"]]\nurl="ws://a:1"\nname="a"\n[[ host ]]\nurl="ws://b:1"',  # and no end of the last line
        '[[host]]\r\nurl = "ws://a:1"\r\nname = "a"\r\n[[host]]\r\nurl = "ws://b:1"\r\n',
        '\ufeff[[host]]\nurl = "ws://a:1"\nname = "a"\n[[host]]\nurl = "ws://b:1"\n',  # as Windows' Notepad signs it
        "host = []\n",
    ],
)
def test_other_ways_to_write_it(file: Path, text: str) -> None:
    written(file, "").write_bytes(text.encode())
    known = read(file).hosts
    assert [host.name for host in known] == (["a", "b:1"] if "ws:" in text else [])
    add(file, Host("ws://c:1", "c"))
    add(file, Host("ws://b:1", "b"))
    expected = {host.url: host.name for host in known} | {"ws://c:1": "c", "ws://b:1": "b"}
    assert {host.url: host.name for host in read(file).hosts} == expected
    for host in read(file).hosts:
        assert remove(file, host.name) == host
    assert read(file).hosts == ()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_folder_that_is_not_ours_has_no_file_of_ours(tmp_path: Path) -> None:
    """A service whose HOME is another's, or none, is no worse off than without a file."""
    assert read(Path(os.devnull, "hosts.toml")) == Settings()
    locked = written(tmp_path / "locked" / "hosts.toml", "").parent
    locked.chmod(0)
    code = (
        "import os, sys; from pathlib import Path; from glremote.hosts import read\n"
        "if not os.geteuid(): os.seteuid(65534)\n"  # to root no folder is closed
        "print(read(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-P", "-c", code, str(locked / "hosts.toml")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    locked.chmod(0o700)
    assert done.stdout.startswith("Settings(hosts=()"), done.stderr


def test_a_link_to_itself_is_said(file: Path) -> None:
    file.parent.mkdir()
    file.symlink_to(file)
    for call in (lambda: read(file), lambda: add(file, Host("ws://a:1"))):
        with pytest.raises(HostsFileError, match="links"):
            call()


@pytest.mark.parametrize(
    "text",
    ["", "host = []\n", 'local = "first"\nhost = []\n', 'host = [{url = "ws://b:1"}]\n', '[[host]]\nurl = "ws://b:1"'],
)
def test_the_last_host_goes_and_another_comes(file: Path, text: str) -> None:
    written(file, text)
    for host in (Host("ws://a:1", "a", "secret"), Host("ws://c:1", "c")):
        for known in read(file).hosts:
            remove(file, known.name)
        assert read(file).hosts == ()
        add(file, host)
        assert read(file).hosts == (host,)
        assert file.read_text().count(HEAD) <= 1
    assert read(file).local == ("first" if "first" in text else "last")
    add(file, Host("ws://b:1", "b"))
    assert [host.name for host in read(file).hosts] == ["c", "b"]


@pytest.mark.parametrize("line", ["host = []", 'host = [{url = "ws://b:1", name = "b"}]'])
def test_hosts_in_one_line_are_added_to(file: Path, line: str) -> None:
    written(file, f'{line}  # mine\nlocal = "first"\n')
    before = read(file).hosts
    add(file, Host("ws://a:1", "a"))
    assert read(file).hosts == (*before, Host("ws://a:1", "a"))
    add(file, Host("ws://c:1", "c"))
    assert read(file).hosts == (*before, Host("ws://a:1", "a"), Host("ws://c:1", "c"))
    assert read(file).local == "first"


def test_a_last_line_that_does_not_end(file: Path) -> None:
    written(file, '[[host]]\nurl = "ws://b:1"')
    add(file, Host("ws://a:1", "a"))
    assert [host.url for host in read(file).hosts] == ["ws://b:1", "ws://a:1"]


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    real = written(tmp_path / "real.toml", "")
    file.parent.mkdir()
    file.symlink_to(real)
    add(file, Host("ws://a:1"))
    assert file.is_symlink() and read(real).hosts


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_others_may_read_no_token(file: Path, mode: int) -> None:
    written(file, '[[host]]\nurl = "ws://a:1"\n', mode)
    assert read(file).hosts
    rows = [f'[[host]]\nurl = "ws://a:1"\n{token} = "t"' for token in ("token", '"token"', "  token ", "'token'")]
    for text in (*rows, 'host = [{url = "ws://a:1", token = "t"}]'):
        written(file, f"{text}\n", mode)
        with pytest.raises(HostsFileError, match="can be read by others than its user: chmod 600"):
            read(file)
        with pytest.raises(HostsFileError, match="chmod 600"):
            add(file, Host("ws://b:1"))
    written(file, '[[host]]\nurl = "ws://a:1"\n', 0o620)
    with pytest.raises(HostsFileError, match="can be written by others"):
        read(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "cannot be read"),
        ('hosts = "a"', "'hosts' says nothing there"),
        ('local = "never"', "local is"),
        ("host = 1", r"\[\[host\]\]"),
        ("[[host]]", "number 1: it has no url"),
        ('[[host]]\nurl = 1', "url is a text in quotes"),
        ('[[host]]\nurl = "a:1"', "is no host: give ws://HOST:PORT"),
        ('[[host]]\nurl = "ws://a:b"', "is no host"),
        ('[[host]]\nurl = "ws://a b:1"', "is no host"),
        ('[[host]]\nurl = "wss://a:1"\nca = ""', "ca is empty"),
        ('[[host]]\nurl = "wss://a:1"\npin = ""', "pin is empty"),
        ('[[host]]\nurl = "ws://a:1"\ntokn = "t"', "'tokn' says nothing there"),
        ('[[host]]\nurl = "ws://a:1"\ntoken = "two words"', "the token of a:1 is none"),
        ('[[host]]\nurl = "ws://a:1"\ntoken = ""', "the token of a:1 is none"),
        ('[[host]]\nurl = "ws://a:1"\n[[host]]\nurl = "ws://a:1/"', "number 2: ws://a:1 is there twice"),
        ('[[host]]\nurl = "ws://a:1"\nname = "x"\n[[host]]\nurl = "ws://b:1"\nname = "x"', "number 2: x is ws://a:1"),
    ],
)
def test_what_is_no_file_of_hosts(file: Path, text: str, said: str) -> None:
    with pytest.raises(HostsFileError, match=f"{file}.*{said}"):
        read(written(file, text))
    before = file.read_bytes()
    with pytest.raises(HostsFileError):
        add(file, Host("ws://z:1"))
    assert file.read_bytes() == before


@pytest.mark.parametrize("name", ["two words", "a/0", "a:0", "local", "a\n", "x" * 65, "-x"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="no name for a host"):
        Host("ws://a:1", name)


def test_an_address_with_a_password_is_not_shown() -> None:
    for rest in ("a:1", "a:1/b", "[::1]:1", "a:99999", "a:1#b", "", "a b:1"):
        with pytest.raises(HostUnreachable, match="with a user and a password") as raised:
            Host(f"ws://somebody:secret@{rest}")
        assert "secret" not in str(raised.value)
    with pytest.raises(NoHost, match=r"'http://\.\.\.@a:1' is no host") as other:
        Host("http://somebody:secret@a:1")
    assert other.value.meant == ()


def test_another_process_takes_a_host_that_was_reached() -> None:
    host = Host("wss://a:1", "a", "t")
    assert host.trust is not None
    assert pickle.loads(pickle.dumps(host)) == host


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert default_file() is None  # as the tests have it: set and empty
    monkeypatch.setenv("GLREMOTE_HOSTS", str(tmp_path / "x"))
    assert default_file() == tmp_path / "x"
    monkeypatch.setenv("GLREMOTE_HOSTS", os.path.join("~", "x"))
    assert default_file() == Path.home() / "x"
    monkeypatch.delenv("GLREMOTE_HOSTS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    found = default_file()
    assert found is not None and found.name == "hosts.toml"


def test_several_who_write_at_once_lose_nothing(file: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from glremote.hosts import *\n"
        "for n in range(5): add(Path(sys.argv[1]), Host(f'ws://{sys.argv[2]}:{n + 1}'))"
    )
    writers = [
        subprocess.Popen([sys.executable, "-P", "-c", code, str(file), name], env=environment()) for name in "abc"
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(read(file).hosts) == 15
