"""Classes that properties name: one answer to what is wrong with them, whatever they are for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieIndex, HoodiePreCommitValidator, HoodieRecordMerger, HoodieWriteCommitCallback
from hoodie.callback.commit_callbacks import create_callback
from hoodie.client.call_arguments import check_named_classes
from hoodie.client.validator.pre_commit_validators import PreCommitValidators
from hoodie.common.util.class_loading import create_object, error_of_class, load_class
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieException, HoodieIndexException
from hoodie.execution.bulkinsert.bulk_insert_partitioner import BulkInsertPartitioner
from hoodie.index.index_factory import create_index
from hoodie.keygen.user_key_generator import UserKeyGenerator
from hoodie.transaction.conflict_resolution_strategy import ConflictResolutionStrategy, conflict_resolution_strategy
from hoodie.transaction.lock.lock_manager import lock_provider_class
from hoodie.transaction.lock.lock_provider import LockProvider


def config(**properties: str) -> HoodieWriteConfig:
    return HoodieWriteConfig.from_properties("memory://t", {key.replace("_", "."): v for key, v in properties.items()})


PLUG_INS: dict[type, tuple[str, Callable[[str], Any]]] = {
    HoodieIndex: ("hoodie.index.class", lambda name: create_index(config(hoodie_index_class=name))),
    HoodieRecordMerger: (
        "hoodie.write.record.merge.custom.implementation.classes",
        lambda name: check_named_classes(config(hoodie_write_record_merge_custom_implementation_classes=name)),
    ),
    UserKeyGenerator: (
        "hoodie.datasource.write.keygenerator.class",
        lambda name: check_named_classes(config(hoodie_datasource_write_keygenerator_class=name)),
    ),
    BulkInsertPartitioner: (
        "hoodie.bulkinsert.user.defined.partitioner.class",
        lambda name: check_named_classes(config(hoodie_bulkinsert_user_defined_partitioner_class=name)),
    ),
    HoodieWriteCommitCallback: (
        "hoodie.write.commit.callback.class",
        lambda name: create_callback(
            config(hoodie_write_commit_callback_on="true", hoodie_write_commit_callback_class=name)
        ),
    ),
    HoodiePreCommitValidator: (
        "hoodie.precommit.validators",
        lambda name: PreCommitValidators(config(hoodie_precommit_validators=name)),
    ),
    LockProvider: ("hoodie.write.lock.provider", lock_provider_class),
    ConflictResolutionStrategy: (
        "hoodie.write.lock.conflict.resolution.strategy",
        lambda name: conflict_resolution_strategy(name, has_bucket_index=False),
    ),
}


def test_a_reported_error_has_its_class_and_message() -> None:
    error = error_of_class("HoodieIndexException", "a is in two files")
    assert (type(error), str(error)) == (HoodieIndexException, "a is in two files")


@pytest.mark.parametrize("name", ["NoSuchException", "Iterable", "__name__", "error_of_class", ""])
def test_any_other_name_gives_the_base_of_all_errors(name: str) -> None:
    error = error_of_class(name, "failed")
    assert (type(error), str(error)) == (HoodieException, "failed")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nowhere.Mine", "cannot be imported (ModuleNotFoundError: No module named 'nowhere'): name a subclass of {}"),
        ("json.Mine", "cannot be imported (AttributeError: module 'json' has no attribute 'Mine'): name a subclass"),
        ("json.loads", "is not a subclass of {}: name a subclass of {} as package.module.Class that"),
        (
            "json.JSONDecoder",
            "is not a subclass of {}: name a subclass of {} as package.module.Class that",
        ),
        ("com.example.Mine", "looks like a class of Java: name a subclass of {} as package.module.Class"),
    ],
)
@pytest.mark.parametrize("base_class", PLUG_INS, ids=lambda base_class: base_class.__name__)
def test_what_is_wrong_with_a_class_is_said_alike(base_class: type, name: str, problem: str) -> None:
    key, load = PLUG_INS[base_class]
    with pytest.raises(HoodieConfigException) as caught:
        load(name)
    shown = f"{'hoodie' if base_class.__name__ in PUBLIC else base_class.__module__}.{base_class.__name__}"
    assert str(caught.value).startswith(f"{key} = {name} {problem.replace('{}', shown)}")


PUBLIC = {"HoodieIndex", "HoodieRecordMerger", "HoodieWriteCommitCallback", "HoodiePreCommitValidator"}


@pytest.mark.parametrize("base_class", PLUG_INS, ids=lambda base_class: base_class.__name__)
def test_a_class_that_leaves_methods_undefined_is_refused(base_class: type) -> None:
    key, load = PLUG_INS[base_class]
    name = f"{base_class.__module__}.{base_class.__name__}"
    with pytest.raises(HoodieConfigException, match=f"^{key} = {name} does not define [a-z_, ]+, as .* asks for$"):
        load(name)


class Picky(Exception):
    """A class with a constructor that does not like what it is given."""

    def __init__(self, error: Exception) -> None:
        raise error


def test_errors_of_a_constructor_are_named_and_those_of_hoodie_are_its_own() -> None:
    name = f"{__name__}.Picky"
    with pytest.raises(
        HoodieConfigException, match=r"^my.key = .*Picky cannot be created \(KeyError: 'a'\).* with KeyE"
    ):
        create_object(name, "my.key", Exception, KeyError("a"))
    with pytest.raises(HoodieIndexException, match="^not this one$"):
        create_object(name, "my.key", Exception, HoodieIndexException("not this one"))
    with pytest.raises(HoodieConfigException, match="is called with no argument$"):
        create_object(name, "my.key", Exception)


def test_a_package_of_python_may_be_called_as_one_of_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "com").mkdir()
    (tmp_path / "com" / "mine.py").write_text("class Own(dict): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_class("com.mine.Own", "my.key", dict).__name__ == "Own"


def test_a_module_below_a_name_of_javas_says_why_it_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "com").mkdir()
    (tmp_path / "com" / "acme_mergers.py").write_text("import a_library_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        HoodieConfigException, match="cannot be imported .*No module named 'a_library_that_is_not_there'"
    ):
        load_class("com.acme_mergers.Mine", "hoodie.index.class", HoodieIndex)
    with pytest.raises(HoodieConfigException, match=r"com\.acme_indexes\.Mine looks like a class of Java"):
        load_class("com.acme_indexes.Mine", "hoodie.index.class", HoodieIndex)
