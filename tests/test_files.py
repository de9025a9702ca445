"""Files appear in one piece, and never half."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from pv4fad.errors import DataError
from pv4fad.files import require_new_file, require_writable, whole_file, write_folder, write_whole
from pv4fad.store.key_sources import create_key_file


def test_a_text_replaces_another_and_keeps_to_its_owner(tmp_path):
    path = tmp_path / "file"
    write_whole(path, "ä")
    write_whole(path, "two", private=True)
    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_name_is_on_the_disk_before_anything_is_done_that_relies_on_it(tmp_path, monkeypatch):
    """After a power cut a file whose folder was not synced can be gone, or be the old one."""
    synced, fsync = [], os.fsync

    def recorded(descriptor):
        fsync(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            synced.append((os.fstat(descriptor).st_ino, {one.name for one in tmp_path.iterdir()}))

    monkeypatch.setattr(os, "fsync", recorded)
    here, there = tmp_path.stat().st_ino, {"file"}
    write_whole(tmp_path / "file", "text")
    assert synced == [(here, there)]
    create_key_file(tmp_path / "key")
    assert synced[1:] == [(here, {"file", "key"})]
    write_folder(tmp_path / "folder", {})
    assert synced[2:] == [(here, {"file", "key", "folder"})]


@pytest.mark.parametrize("error", [ValueError("a mistake"), KeyboardInterrupt()])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file"
    write_whole(path, "old")

    def fail():
        with whole_file(path) as file:
            file.write(b"half of it")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as refused:
        write_whole(tmp_path / "file", "text")
    assert refused.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_to_and_not_replaced():
    write_whole(Path(os.devnull), "text")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "there").touch()
    with pytest.raises(DataError, match="already exists"):
        require_new_file(tmp_path / "there")
    require_writable(None, tmp_path / "there", tmp_path / "new")
    for path, what in (
        (tmp_path / "none" / "file", "there is no folder"),
        (tmp_path, "is a folder"),
        (Path("/proc/file"), "cannot be written"),
    ):
        with pytest.raises(DataError, match=what):
            require_writable(path)
    assert [one.name for one in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_appears_whole_and_for_its_owner(tmp_path, there):
    path = tmp_path / "folder"
    if there:
        path.mkdir()
    write_folder(path, {"one": "ä", "two": "2"})
    assert {file.name: file.read_text() for file in path.iterdir()} == {"one": "ä", "two": "2"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_whole_is_not_written(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        write_folder(tmp_path / "folder", {"one": "1", "no/where": "2"})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "precious").touch()
    with pytest.raises(DataError, match="is not empty"):
        write_folder(tmp_path, {"one": "1"})
    assert [file.name for file in tmp_path.iterdir()] == ["precious"]
