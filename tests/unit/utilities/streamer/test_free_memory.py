from __future__ import annotations

from hoodie.utilities.streamer.free_memory import FreedMemory


def test_memory_is_given_back_at_most_ten_times_in_a_second() -> None:
    now = [0.0]
    memory = FreedMemory(lambda: now[0])
    assert memory.give_back()
    now[0] = 0.09
    assert not memory.give_back()
    now[0] = 0.1
    assert memory.give_back()


def test_systems_without_the_call_give_back_what_arrow_holds() -> None:
    memory = FreedMemory()
    memory._trim = None
    assert memory.give_back()
