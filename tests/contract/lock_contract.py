"""What every lock provider must do; subclasses say how one is made."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pytest

from hoodie.config.write_config import HoodieWriteConfig
from hoodie.storage.storage_factory import open_storage
from hoodie.transaction.lock.lock_provider import LockConfiguration, LockProvider
from hoodie.transaction.lock.lock_waiting import LockClock


class SteppedClock(LockClock):
    """A time that passes when somebody sleeps, or the test says so."""

    def __init__(self) -> None:
        self.offset_ms = 0
        self.span_offset_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.offset_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.offset_ms + self.span_offset_ms

    def pass_span_ms(self, duration_ms: int) -> None:
        """Let time pass for spans of time only; the time of day is looked after by the test."""
        self.span_offset_ms += duration_ms

    def sleep_ms(self, duration_ms: float) -> None:
        self.offset_ms += int(duration_ms) + 1

    def pass_ms(self, duration_ms: int) -> None:
        self.offset_ms += duration_ms


def lock_configuration(
    base_path: str,
    properties: dict[str, Any],
    clock: LockClock | None = None,
    storage_options: dict[str, Any] | None = None,
) -> LockConfiguration:
    """What the transaction manager of a writer with these properties makes."""
    config = HoodieWriteConfig.from_properties(base_path, properties)
    return LockConfiguration(
        base_path=base_path,
        table_name="trips",
        storage=open_storage(base_path, storage_options),
        options=config.lock,
        properties=config.properties,
        clock=clock or LockClock(),
    )


class _Providers(ABC):
    """`make` gives a provider of one lock; each call is another writer."""

    @abstractmethod
    def make(self) -> LockProvider:
        """A provider, as of another writer."""

    @pytest.fixture
    def providers(self) -> Iterator[list[LockProvider]]:
        found: list[LockProvider] = []
        yield found
        for provider in found:
            provider.close()

    def new(self, providers: list[LockProvider]) -> LockProvider:
        provider = self.make()
        providers.append(provider)
        return provider


class LockContract(_Providers):
    """What holds at any time; the clock is the machine's."""

    def test_one_holds_it_until_it_gives_it_back(self, providers: list[LockProvider]) -> None:
        first, second = self.new(providers), self.new(providers)
        assert not first.is_held()
        assert first.try_lock(60_000)
        assert first.is_held()
        assert not second.is_held()
        assert not second.try_lock(0)
        assert not second.is_held()
        first.unlock()
        assert not first.is_held()
        assert second.try_lock(60_000)
        assert second.is_held()

    def test_it_can_be_taken_again_and_again(self, providers: list[LockProvider]) -> None:
        provider = self.new(providers)
        for _ in range(3):
            assert provider.try_lock(60_000)
            provider.unlock()
        assert not provider.is_held()

    def test_giving_back_what_is_not_held_leaves_that_of_another(self, providers: list[LockProvider]) -> None:
        first, second = self.new(providers), self.new(providers)
        second.unlock()
        assert first.try_lock(60_000)
        second.unlock()
        second.close()
        assert first.is_held()

    def test_closing_gives_it_back(self, providers: list[LockProvider]) -> None:
        first, second = self.new(providers), self.new(providers)
        assert first.try_lock(60_000)
        first.close()
        assert second.try_lock(60_000)

    def test_who_waits_gets_it_when_it_is_given_back(self, providers: list[LockProvider]) -> None:
        first, second = self.new(providers), self.new(providers)
        assert first.try_lock(60_000)
        answers: list[bool] = []
        waiting = threading.Thread(target=lambda: answers.append(second.try_lock(60_000)))
        waiting.start()
        first.unlock()
        waiting.join(60)
        assert answers == [True]
        assert second.is_held()

    def test_it_says_who_holds_it(self, providers: list[LockProvider]) -> None:
        first, second = self.new(providers), self.new(providers)
        assert first.try_lock(60_000)
        assert threading.current_thread().name in second.owner_information()
        assert second.name
        assert second.way_out().endswith(".")

    def test_threads_never_hold_it_at_once(self, providers: list[LockProvider]) -> None:
        inside, most, counter = 0, 0, 0
        mutex = threading.Lock()

        def count(provider: LockProvider) -> None:
            nonlocal inside, most, counter
            for _ in range(5):
                assert provider.try_lock(60_000)
                with mutex:
                    inside += 1
                    most = max(most, inside)
                value = counter
                assert provider.is_held()
                counter = value + 1
                with mutex:
                    inside -= 1
                provider.unlock()

        threads = [threading.Thread(target=count, args=(self.new(providers),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert (most, counter) == (1, 20)


class LeaseContract(_Providers):
    """Of providers whose lock expires: the clock is the test's."""

    lease_ms: int

    @pytest.fixture(autouse=True)
    def _clock(self) -> None:
        self.clock = SteppedClock()

    def die(self, provider: Any) -> None:
        """Leave everything as a process does that is killed."""
        provider._stop_renewing()

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass for all writers."""
        self.clock.pass_ms(duration_ms)

    def take_from_the_dead(self, provider: LockProvider) -> bool:
        """Take a lock whose lease is over."""
        return provider.try_lock(0)

    def test_that_of_a_dead_writer_is_taken_when_its_lease_is_over(self, providers: list[LockProvider]) -> None:
        first, second = self.new(providers), self.new(providers)
        assert first.try_lock(0)
        self.die(first)
        self.pass_time(self.lease_ms // 2)
        assert not second.try_lock(0)
        self.pass_time(self.lease_ms)
        assert self.take_from_the_dead(second)
        assert second.is_held()
        assert not first.is_held()

    def test_who_wakes_up_too_late_neither_holds_it_nor_gives_it_back(self, providers: list[LockProvider]) -> None:
        first, second = self.new(providers), self.new(providers)
        assert first.try_lock(0)
        self.die(first)
        assert not second.try_lock(0)
        self.pass_time(self.lease_ms * 2)
        assert not first.is_held()
        assert self.take_from_the_dead(second)
        first.unlock()
        assert second.is_held()
        assert not self.new(providers).try_lock(0)

    def test_a_renewed_lease_goes_on(self, providers: list[LockProvider]) -> None:
        first, second = self.new(providers), self.new(providers)
        assert first.try_lock(0)
        self.die(first)
        for _ in range(4):
            self.pass_time(self.lease_ms * 2 // 3)
            assert first.renew()  # type: ignore[attr-defined]
            assert not second.try_lock(0)
        assert first.is_held()

    def test_a_lease_that_is_over_is_not_renewed(self, providers: list[LockProvider]) -> None:
        first, second = self.new(providers), self.new(providers)
        assert first.try_lock(0)
        self.die(first)
        assert not second.try_lock(0)
        self.pass_time(self.lease_ms * 2)
        assert self.take_from_the_dead(second)
        assert not first.renew()  # type: ignore[attr-defined]
        assert not first.renew()  # type: ignore[attr-defined]
        assert second.is_held()

    def test_shortly_before_its_end_a_lease_does_not_count(self, providers: list[LockProvider]) -> None:
        first = self.new(providers)
        assert first.try_lock(0)
        self.die(first)
        self.pass_time(self.lease_ms - 2)
        assert not first.is_held()

    def test_of_several_that_find_a_dead_writers_lock_one_gets_it(self, providers: list[LockProvider]) -> None:
        first = self.new(providers)
        assert first.try_lock(0)
        self.die(first)
        others = [self.new(providers) for _ in range(5)]
        for other in others:
            assert not other.try_lock(0)
        self.pass_time(self.lease_ms * 2)
        answers: list[LockProvider] = []
        barrier = threading.Barrier(len(others))

        def take(provider: LockProvider) -> None:
            barrier.wait()
            if self.take_from_the_dead(provider):
                answers.append(provider)

        threads = [threading.Thread(target=take, args=(other,)) for other in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(answers) == 1
        assert [other for other in others if other.is_held()] == answers
