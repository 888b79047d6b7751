"""Downloads through a network that breaks in every way it can."""
import io
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from serveplane.dataplane.storage import transfer, wire
from serveplane.dataplane.storage.deadline import Deadline
from serveplane.dataplane.storage.download import download
from serveplane.dataplane.storage.errors import Changed, Corrupt, DeadlineOver, Interrupted, NotFound, StorageError
from serveplane.dataplane.storage.files import Patterns, RemoteFile
from serveplane.dataplane.storage.moving import Mover
from serveplane.dataplane.storage.staging import FOLDER, Journal, Staging
from serveplane.dataplane.storage.transfer import TransferSettings
from tests.counts import SEED
from tests.kit.processes import free_ports
from tests.unit.dataplane.store import Store, running

CONTENT = random.Random(SEED).randbytes(300_000)
FAST = TransferSettings(connections=4, piece_bytes=50_000, stall_seconds=0.5, attempts=12)


@pytest.fixture
def store() -> Iterator[Store]:
    with running(Store({"/m/model.bin": CONTENT})) as started:
        yield started


def fetch(
    store: Store,
    folder: Path,
    settings: TransferSettings = FAST,
    path: str = "/m/model.bin",
    environment: dict[str, str] | None = None,
) -> io.StringIO:
    told = io.StringIO()
    download(store.url + path, str(folder), Patterns(), settings, environment or {}, told)
    return told


def test_a_large_file_comes_in_pieces(store: Store, tmp_path: Path) -> None:
    fetch(store, tmp_path)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    assert os.listdir(tmp_path) == ["model.bin"]
    assert sum("Range" in headers for _, _, headers in store.asked) == 7   # the first byte, then six pieces


@pytest.mark.parametrize(("waits", "ports"), [(0, 4), (100, 2)])
def test_more_threads_come_if_it_is_not_writing_that_takes_the_time(
        store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: int, ports: int) -> None:
    """The store is slow, so four connections are used; unless each thread waits for the others whenever it wants to write."""
    monkeypatch.setattr(transfer, "ENOUGH", 2)
    monkeypatch.setattr(transfer, "LATER_SECONDS", 0.1)
    for name, value in (("turns", 100), ("waits", waits)):
        monkeypatch.setattr(Mover, name, property(lambda self, value=value: value, lambda self, value: None), raising=False)
    store.objects["/m/model.bin"], store.pause = CONTENT * 4, 0.02
    fetch(store, tmp_path)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT * 4
    assert len(store.peers) - 1 == ports   # one asked for the first byte


def test_a_server_without_ranges_is_read_in_one_go(store: Store, tmp_path: Path) -> None:
    store.ranges = False
    fetch(store, tmp_path)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("ranges", [True, False])
def test_broken_connections_are_taken_up_again(store: Store, tmp_path: Path, ranges: bool) -> None:
    store.ranges, store.cut_after, store.cuts_left = ranges, 20_000, 2 if not ranges else 9
    fetch(store, tmp_path)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    assert store.cuts_left == 0


def test_a_stalled_connection_is_replaced(store: Store, tmp_path: Path) -> None:
    store.stall_after, store.stalls_left = 10_000, 2
    fetch(store, tmp_path)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    assert store.stalls_left == 0


def test_a_busy_server_is_asked_again(store: Store, tmp_path: Path) -> None:
    store.busy_left = 2   # the listing's first two attempts
    store.cut_after, store.cuts_left = 0, 3
    fetch(store, tmp_path)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    assert (store.busy_left, store.cuts_left) == (0, 0)


def test_an_http_proxy_is_asked_for_the_whole_address(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", store.url)
    monkeypatch.delenv("no_proxy", raising=False)
    store.objects["http://models.example/m.bin"] = b"through the proxy"
    download("http://models.example/m.bin", str(tmp_path), Patterns(), FAST, {}, io.StringIO())
    assert (tmp_path / "m.bin").read_bytes() == b"through the proxy"


def test_it_gives_up_in_the_end_and_says_why(store: Store, tmp_path: Path) -> None:
    store.cut_after, store.cuts_left = 0, 10_000
    with pytest.raises(Interrupted, match=r"model\.bin"):
        fetch(store, tmp_path, TransferSettings(piece_bytes=50_000, attempts=2))


def test_the_deadline_holds(store: Store, tmp_path: Path) -> None:
    store.stall_after, store.stalls_left = 1000, 10_000
    with pytest.raises((DeadlineOver, Interrupted)):
        fetch(store, tmp_path, TransferSettings(connections=1, stall_seconds=0.2, deadline_seconds=0.3, attempts=50))


def test_a_cut_run_leaves_no_model_and_the_next_reads_only_the_rest(store: Store, tmp_path: Path) -> None:
    store.cut_after, store.cuts_left, store.lives = 30_000, 1, 2
    with pytest.raises(Interrupted):
        fetch(store, tmp_path, TransferSettings(connections=1, piece_bytes=100_000, attempts=1))
    store.lives = None
    assert os.listdir(tmp_path) == [FOLDER]
    store.cuts_left, store.asked = 0, []
    fetch(store, tmp_path, TransferSettings(connections=1, piece_bytes=100_000))
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    first = next(headers["Range"] for _, _, headers in store.asked if headers.get("Range") not in (None, "bytes=0-0"))
    assert not first.startswith("bytes=0-")


def test_a_source_that_changed_starts_over(store: Store, tmp_path: Path) -> None:
    store.cut_after, store.cuts_left, store.lives = 30_000, 1, 2
    with pytest.raises(Interrupted):
        fetch(store, tmp_path, TransferSettings(connections=1, piece_bytes=100_000, attempts=1))
    store.lives = None
    changed = CONTENT[::-1]
    store.objects["/m/model.bin"], store.cuts_left = changed, 0
    fetch(store, tmp_path, TransferSettings(connections=1, piece_bytes=100_000))
    assert (tmp_path / "model.bin").read_bytes() == changed
    assert os.listdir(tmp_path) == ["model.bin"]


def test_a_source_that_changes_meanwhile_is_an_error(store: Store, tmp_path: Path) -> None:
    from serveplane.dataplane.storage.files import Listing
    from serveplane.dataplane.storage.progress import Progress
    from serveplane.dataplane.storage.transfer import Transfer
    file = RemoteFile("model.bin", f"{store.url}/m/model.bin", len(CONTENT), etag="another")
    with pytest.raises(Changed):
        Transfer(Listing((file,)), Staging(tmp_path), FAST, Progress("", io.StringIO())).run()


def test_a_wrong_checksum_is_an_error_and_nothing_is_kept(store: Store, tmp_path: Path) -> None:
    store.corrupt = True
    environment = {"AWS_ENDPOINT_URL": store.url, "awsAnonymousCredential": "true"}
    with pytest.raises(Corrupt, match="md5"):
        download("s3://m/model.bin", str(tmp_path), Patterns(), FAST, environment, io.StringIO())
    store.corrupt = False
    download("s3://m/model.bin", str(tmp_path), Patterns(), FAST, environment, io.StringIO())
    assert (tmp_path / "model.bin").read_bytes() == CONTENT


def test_a_half_written_journal_counts_as_far_as_it_goes(tmp_path: Path) -> None:
    file = RemoteFile("m", "", 100)
    staging = Staging(tmp_path)
    staging.part(file).write_bytes(bytes(100))
    journal = Journal(staging.journal(file))
    journal.add(0, 10)
    journal.close()
    with staging.journal(file).open("ab") as tail:
        tail.write(b"\1\2\3")
    assert staging.written(file) == [(0, 10)]


def test_a_run_cut_while_moving_is_finished_by_the_next(store: Store, tmp_path: Path) -> None:
    store.objects = {"/b/a.bin": b"a" * 10, "/b/b.bin": b"b" * 10}
    environment = {"AWS_ENDPOINT_URL": store.url, "awsAnonymousCredential": "true"}
    staging = Staging(tmp_path)
    staging.trust()
    (staging.folder / "complete").touch()
    (tmp_path / "a.bin").write_bytes(b"a" * 10)
    store.asked = []
    download("s3://b/", str(tmp_path), Patterns(), FAST, environment, io.StringIO())
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "b.bin"]
    assert [path for _, path, _ in store.asked if "a.bin" in path] == []


def test_what_another_boot_left_is_not_believed(store: Store, tmp_path: Path) -> None:
    store.lives = 4
    with pytest.raises(StorageError):
        fetch(store, tmp_path, TransferSettings(connections=1, piece_bytes=50_000, attempts=1))
    assert list((tmp_path / FOLDER).glob("*.done"))
    (tmp_path / FOLDER / "boot").write_text("before the power went")
    store.lives, store.asked = None, []
    fetch(store, tmp_path)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    assert sum("Range" in headers for _, _, headers in store.asked) == 7   # all of it again


def test_a_stranger_sees_no_header_of_the_users(store: Store, tmp_path: Path) -> None:
    with running(Store({"/m/model.bin": CONTENT})) as stranger:
        store.answers["/m/model.bin"] = (302, {"Location": f"{stranger.url}/m/model.bin"}, b"")
        fetch(store, tmp_path, environment={"127.0.0.1-headers": '{"X-Api-Key": "hidden"}'})
        assert (tmp_path / "model.bin").read_bytes() == CONTENT
        assert all(headers.get("X-Api-Key") == "hidden" for _, _, headers in store.asked)
        assert stranger.asked
        assert not any("X-Api-Key" in headers for _, _, headers in stranger.asked)


def test_a_header_that_would_end_its_line_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="the header 'X-Key' has characters"):
        fetch(store, tmp_path, environment={"127.0.0.1-headers": '{"X-Key": "a\\r\\nHost: b"}'})


def test_an_address_with_blanks_is_asked_for_as_browsers_do(store: Store, tmp_path: Path) -> None:
    store.objects["/m/my modèl.bin"] = b"content"
    fetch(store, tmp_path, path="/m/my modèl.bin")
    assert (tmp_path / "my modèl.bin").read_bytes() == b"content"


def test_the_deadline_holds_while_nothing_comes(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "TICK_SECONDS", 0.05)
    store.stall_after, store.stalls_left = 10_000, 100
    with pytest.raises(DeadlineOver):
        fetch(store, tmp_path, TransferSettings(connections=2, piece_bytes=50_000, stall_seconds=60.0, deadline_seconds=0.2))


def test_the_deadline_holds_for_listings_and_for_all_that_share_it(store: Store, tmp_path: Path) -> None:
    store.lives = 0
    with pytest.raises(DeadlineOver):
        fetch(store, tmp_path, TransferSettings(deadline_seconds=0.05, attempts=6))
    over = Deadline(-1.0)
    store.lives = None
    with pytest.raises(DeadlineOver):
        download(f"{store.url}/m/model.bin", str(tmp_path), None, FAST, {}, io.StringIO(), deadline=over)


def test_a_disk_without_room_is_known_at_once(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = os.statvfs_result((4096, 4096, 1000, 10, 10, 100, 100, 100, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(StorageError, match="no room: 300000 bytes are needed, 40960 are free"):
        fetch(store, tmp_path)


def test_progress_is_told_as_json(store: Store, tmp_path: Path) -> None:
    last = json.loads(fetch(store, tmp_path).getvalue().splitlines()[-1])["storage"]
    assert (last["bytes"], last["total"], last["files"], last["allFiles"]) == (300_000, 300_000, 1, 1)


def test_headers_from_the_environment_are_sent_and_secrets_are_not_shown(store: Store, tmp_path: Path) -> None:
    fetch(store, tmp_path, environment={"127.0.0.1-headers": '{"X-Token": "secret"}'})
    assert all(headers.get("X-Token") == "secret" for _, _, headers in store.asked)
    with pytest.raises(StorageError) as error:
        fetch(store, tmp_path / "b", environment={"127.0.0.1-headers": "{secret"})
    assert "secret" not in str(error.value)


def test_user_and_password_become_a_header_and_never_a_message(store: Store, tmp_path: Path) -> None:
    url = store.url.replace("http://", "http://me:hidden@")
    told = io.StringIO()
    download(f"{url}/m/model.bin", str(tmp_path), Patterns(), FAST, {}, told)
    assert store.asked[0][2]["Authorization"] == "Basic bWU6aGlkZGVu"
    assert "hidden" not in told.getvalue()
    with pytest.raises(NotFound) as error:
        download(f"{url}/m/none?sig=hidden", str(tmp_path), Patterns(), FAST, {}, told)
    assert "hidden" not in str(error.value)


def test_redirects_are_followed_but_not_for_ever(store: Store, tmp_path: Path) -> None:
    store.answers["/moved/model.bin"] = (302, {"Location": "/m/model.bin"}, b"")
    fetch(store, tmp_path, path="/moved/model.bin")
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    store.answers["/loop/model.bin"] = (302, {"Location": "/loop/model.bin"}, b"")
    with pytest.raises(StorageError, match="redirects more than"):
        fetch(store, tmp_path / "x", path="/loop/model.bin")


def test_nobody_listening_is_one_sentence(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with pytest.raises(Interrupted, match="cannot be reached"):
        download(f"http://127.0.0.1:{port}/m", str(tmp_path), Patterns(), TransferSettings(attempts=2), {}, io.StringIO())


def test_a_login_page_is_not_a_model(store: Store, tmp_path: Path) -> None:
    store.answers["/page"] = (200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>sign in</html>")
    with pytest.raises(StorageError, match="web page"):
        fetch(store, tmp_path, path="/page")


def test_an_empty_file_is_a_file(store: Store, tmp_path: Path) -> None:
    store.objects["/m/empty"] = b""
    fetch(store, tmp_path, path="/m/empty")
    assert (tmp_path / "empty").read_bytes() == b""
