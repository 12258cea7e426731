"""A writer's description of its table against what the table says."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException


@attrs.frozen
class Table:
    properties: Mapping[str, str]


TRIPS = Table(
    {
        "hoodie.table.name": "trips",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.recordkey.fields": "uuid",
        "hoodie.table.partition.fields": "region,day",
        "hoodie.table.precombine.field": "ts",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexAvroKeyGenerator",
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
)


def config(properties: dict[str, object]) -> HoodieWriteConfig:
    return HoodieWriteConfig.from_properties("/tables/trips", properties)


def test_properties_that_agree_are_accepted() -> None:
    config({}).check_against_table(TRIPS)
    config(
        {
            "hoodie.table.name": "trips",
            "hoodie.datasource.write.table.type": "copy_on_write",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "region:SIMPLE, day:TIMESTAMP",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.type": "COMPLEX",
            "hoodie.datasource.write.payload.class": "DefaultHoodieRecordPayload",
            "hoodie.datasource.write.hive_style_partitioning": True,
            "hoodie.datasource.write.partitionpath.urlencode": "false",
        }
    ).check_against_table(TRIPS)


def test_a_table_whose_properties_change_is_compared_again() -> None:
    mine = config({"hoodie.datasource.write.precombine.field": "ts"})
    changed = Table({**TRIPS.properties, "hoodie.table.precombine.field": "other"})
    for _ in range(2):
        mine.check_against_table(TRIPS)
        mine.check_against_table(Table(dict(TRIPS.properties)))
        with pytest.raises(HoodieConfigException, match=r"the table has 'other'"):
            mine.check_against_table(changed)
    assert mine == config({"hoodie.datasource.write.precombine.field": "ts"})


def test_the_ordering_field_may_have_the_name_that_later_releases_of_hudi_store() -> None:
    properties = {key: value for key, value in TRIPS.properties.items() if key != "hoodie.table.precombine.field"}
    table = Table({**properties, "hoodie.table.ordering.fields": "ts"})
    config({"hoodie.datasource.write.precombine.field": "ts"}).check_against_table(table)
    with pytest.raises(HoodieConfigException, match=r"the table has 'ts' \(hoodie\.table\.ordering\.fields\)"):
        config({"hoodie.datasource.write.precombine.field": "other"}).check_against_table(table)


def test_all_contradictions_are_told_at_once_with_the_way_out() -> None:
    with pytest.raises(HoodieConfigException) as caught:
        config(
            {
                "hoodie.table.name": "rides",
                "hoodie.datasource.write.recordkey.field": "uuid,region",
                "hoodie.datasource.write.partitionpath.field": "",
                "hoodie.datasource.write.precombine.field": "other",
                "hoodie.datasource.write.keygenerator.class": "SimpleKeyGenerator",
                "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
                "hoodie.datasource.write.hive_style_partitioning": "false",
            }
        ).check_against_table(TRIPS)
    lines = str(caught.value).split("\n  - ")
    assert lines[0] == "The properties of this writer contradict those of the table at '/tables/trips':"
    assert lines[1] == (
        "hoodie.table.name = 'rides': the table has 'trips' (hoodie.table.name); leave it out, or write to a table "
        "made with it"
    )
    assert [line.partition(" ")[0].rpartition(".")[2] for line in lines[1:]] == [
        "name",
        "field",
        "field",
        "field",
        "class",
        "class",
        "hive_style_partitioning",
    ]
    assert all("leave it out, or write to a table made with it" in line for line in lines[1:])


def test_an_old_table_without_payload_and_generator_has_those_of_its_time() -> None:
    old = Table({"hoodie.table.name": "t", "hoodie.table.recordkey.fields": "k"})
    config(
        {
            "hoodie.datasource.write.payload.class": "OverwriteWithLatestAvroPayload",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        }
    ).check_against_table(old)
    with pytest.raises(HoodieConfigException, match="DefaultHoodieRecordPayload"):
        config({"hoodie.datasource.write.payload.class": "DefaultHoodieRecordPayload"}).check_against_table(old)
    with pytest.raises(HoodieConfigException, match="made by NonpartitionedKeyGenerator"):
        config({"hoodie.datasource.write.keygenerator.type": "simple"}).check_against_table(old)


def test_a_payload_that_computes_rows_is_answered_with_merge_into() -> None:
    given = config({"hoodie.datasource.write.payload.class": "com.payloads.CustomMergeIntoConnector"})
    with pytest.raises(HoodieConfigException, match=r"computes rows as MERGE INTO does: .*hoodie\.spark\.merge_into"):
        given.check_against_table(TRIPS)


def test_names_of_one_thing_must_agree_among_themselves() -> None:
    with pytest.raises(HoodieConfigException, match="mean the same property"):
        config({"hoodie.table.name": "a", "hoodie.datasource.write.table.name": "b"})
    with pytest.raises(HoodieConfigException, match="hoodie does not support it yet"):
        config({"hoodie.logfile.data.block.format": "hfile"})
