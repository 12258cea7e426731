from __future__ import annotations

import pytest

from hoodie.sync.hive_type_change import needs_cascade


@pytest.mark.parametrize(
    ("old", "new", "must_follow"),
    [
        ("int", "int", False),
        ("int", "bigint", True),
        ("float", "double", True),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "DECIMAL(10, 2)", False),
        ("struct<a:int>", "struct<a:int>", False),
        ("struct<a:int>", "struct<a:int,b:string>", False),
        ("struct<a:int>", "struct<b:string,a:int>", True),
        ("struct<a:int,c:int>", "struct<a:int,b:string,c:int>", True),
        ("struct<a:int,b:string>", "struct<a:int>", True),
        ("struct<a:int,b:string>", "struct<b:string,a:int>", True),
        ("struct<a:int>", "struct<a:bigint,b:string>", True),
        ("struct<a:int>", "struct<other:int>", True),
        ("struct<a:decimal(10,2),b:int>", "struct<a:decimal(10,2),b:int,c:map<string,decimal(3,1)>>", False),
        ("struct<x:struct<a:int>>", "struct<x:struct<a:int,b:int>>", False),
        ("struct<x:struct<a:int>,y:int>", "struct<x:struct<b:int,a:int>,y:int>", True),
        ("array<int>", "array<bigint>", True),
        ("array<struct<a:int>>", "array<struct<a:int,b:int>>", False),
        ("array<struct<a:int>>", "array<struct<b:int,a:int>>", True),
        ("map<string,int>", "map<string,bigint>", True),
        ("map<string,struct<a:int>>", "map<string,struct<a:int,b:array<int>>>", False),
        ("array<int>", "map<int,int>", True),
        ("int", "array<int>", True),
        ("map<string,int>", "map<string>", True),
    ],
)
def test_a_partition_follows_changes_that_its_readers_refuse(old: str, new: str, must_follow: bool) -> None:
    assert needs_cascade(old, new) is must_follow
