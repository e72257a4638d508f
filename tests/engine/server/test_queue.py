"""The queue: first come, first served, and no place is ever lost."""

import asyncio

import pytest

from engine.server.errors import ApiError
from engine.server.queue import Place, RequestQueue


async def test_places_are_given_in_order_and_positions_are_told():
    queue = RequestQueue(parallel=2, queue_max=2)
    first, second, third, fourth = (queue.enter() for _ in range(4))
    assert [queue.position(t) for t in (first, second, third, fourth)] == [0, 0, 1, 2]
    assert (queue.running, queue.queued) == (2, 2)
    queue.leave(second)
    await queue.wait_turn(third)
    assert queue.position(fourth) == 1
    queue.leave(first)
    await queue.wait_turn(fourth)
    for ticket in (third, fourth):
        queue.leave(ticket)
    assert (queue.running, queue.queued) == (0, 0)


async def test_a_full_queue_refuses_and_counts():
    queue = RequestQueue(parallel=1, queue_max=0)
    running = queue.enter()
    with pytest.raises(ApiError) as caught:
        queue.enter()
    assert caught.value.status == 429
    assert queue.rejected == 1
    queue.leave(running)
    queue.leave(queue.enter())


async def test_leaving_twice_frees_one_place_only():
    queue = RequestQueue(parallel=1, queue_max=4)
    first, second, third = (queue.enter() for _ in range(3))
    queue.leave(first)
    queue.leave(first)
    assert queue.running == 1
    assert (second.place, third.place) == (Place.RUNNING, Place.WAITING)


async def test_one_who_leaves_while_waiting_is_passed_over():
    queue = RequestQueue(parallel=1, queue_max=4)
    first, second, third = (queue.enter() for _ in range(3))
    queue.leave(second)
    queue.leave(first)
    await asyncio.wait_for(queue.wait_turn(third), 60)


async def test_waiting_too_long_is_503():
    queue = RequestQueue(parallel=1, queue_max=4, timeout_s=0.01)
    queue.enter()
    waiting = queue.enter()
    with pytest.raises(ApiError) as caught:
        await queue.wait_turn(waiting)
    assert (caught.value.status, caught.value.code) == (503, "queue_timeout")
    queue.leave(waiting)
    assert queue.queued == 0
