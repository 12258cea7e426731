from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_path import file_name, join, normalise_path, parent, relative_to, scheme


@pytest.mark.parametrize(
    ("typed", "uniform"),
    [
        ("/data/trips", "/data/trips"),
        ("/data//trips/", "/data/trips"),
        ("file:///data/trips/", "/data/trips"),
        ("file:/data/trips", "/data/trips"),
        ("file://localhost/data/trips", "/data/trips"),
        ("file:///data/a%20b", "/data/a%20b"),
        ("s3a://bucket/trips/", "s3://bucket/trips"),
        ("S3://bucket//trips", "s3://bucket/trips"),
        ("s3n://bucket", "s3://bucket"),
        ("gs://bucket/trips", "gs://bucket/trips"),
        ("abfss://c@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/t"),
        ("memory:///trips", "memory://trips"),
        ("memory://trips/", "memory://trips"),
        ("/", "/"),
    ],
)
def test_paths_are_made_uniform(typed: str, uniform: str) -> None:
    assert normalise_path(typed) == uniform
    assert normalise_path(uniform) == uniform


def test_a_relative_path_is_below_the_working_directory() -> None:
    assert normalise_path("trips/x") == f"{os.getcwd()}/trips/x"


@pytest.mark.parametrize(
    ("typed", "uniform"), [("~", "/home/ann"), ("~/trips/", "/home/ann/trips"), ("~//a/../trips", "/home/ann/trips")]
)
def test_a_path_may_begin_with_the_home_folder(monkeypatch: pytest.MonkeyPatch, typed: str, uniform: str) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert normalise_path(typed) == uniform
    assert normalise_path(Path(typed)) == uniform  # type: ignore[arg-type]


def test_a_path_may_begin_with_the_home_folder_of_a_user() -> None:
    user = pwd.getpwuid(os.getuid())
    assert normalise_path(f"~{user.pw_name}/trips") == normalise_path(f"{user.pw_dir}/trips")


def test_the_home_folder_of_an_unknown_user_is_refused() -> None:
    with pytest.raises(HoodieConfigException, match=r"there is no such user here; write the path out, or \./~nobody-"):
        normalise_path("~nobody-of-that-name/trips")


def test_a_tilde_elsewhere_is_a_character() -> None:
    assert normalise_path("./~/trips") == f"{os.getcwd()}/~/trips"
    assert normalise_path("/data/~/trips~") == "/data/~/trips~"
    assert normalise_path("file:///~/trips") == "/~/trips"
    assert normalise_path("s3://bucket/~/trips") == "s3://bucket/~/trips"
    with pytest.raises(HoodieConfigException, match="a URL has no '~'; write the plain path ~/trips"):
        normalise_path("file://~/trips")


@pytest.mark.parametrize("typed", ["", "s3:/bucket/x", "s3://", "s3://bucket/../other", "file://host/x"])
def test_what_is_no_path_is_refused(typed: str) -> None:
    with pytest.raises(HoodieConfigException):
        normalise_path(typed)


def test_joining_skips_empty_parts() -> None:
    assert join("/data", "", "a/b", "c") == "/data/a/b/c"
    assert join("s3://bucket", "") == "s3://bucket"
    assert join("/", "a") == "/a"
    assert join("/") == "/"


@pytest.mark.parametrize("part", ["..", "../x", "a/../../b", "a/.."])
def test_joining_never_leaves_the_base(part: str) -> None:
    with pytest.raises(ValueError, match="leave"):
        join("/data", part)


def test_two_dots_inside_a_name_are_a_name() -> None:
    assert join("/data", "a..b/..c") == "/data/a..b/..c"


def test_parents_and_names() -> None:
    assert (parent("/a/b"), file_name("/a/b")) == ("/a", "b")
    assert (parent("/a"), parent("/")) == ("/", "/")
    assert (parent("s3://bucket/a"), parent("s3://bucket")) == ("s3://bucket", "s3://bucket")
    assert (scheme("/a"), scheme("memory://a"), scheme("/a/x://y")) == ("file", "memory", "file")


def test_relative_paths_need_the_base() -> None:
    assert relative_to("/a", "/a/b/c") == "b/c"
    assert relative_to("/a", "/a") == ""
    assert relative_to("/", "/a") == "a"
    with pytest.raises(ValueError, match="not below"):
        relative_to("/a", "/ab/c")


@given(st.lists(st.text("ab .%=", min_size=1).filter(lambda name: name.strip(".") == name and name), max_size=4))
def test_what_is_joined_is_found_again(parts: list[str]) -> None:
    for base in ("/data", "memory://data"):
        path = join(base, *parts)
        assert relative_to(base, path) == "/".join(parts)
        if parts:
            assert join(parent(path), file_name(path)) == path
