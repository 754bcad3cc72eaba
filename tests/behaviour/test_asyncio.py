"""asyncio in compiled code: loops run by it, tasks and futures looked at by it. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import torch

import framejit

x = torch.ones(2)


async def doubled(t):
    await asyncio.sleep(0)
    return t * 2


async def fails(t):
    raise ValueError(t.sum().item())


def run(t):
    return asyncio.run(doubled(t + 1)) + 1


def gather(t):
    async def both():
        return sum(await asyncio.gather(doubled(t), doubled(t + 1)))

    return asyncio.run(both()) + 1


def a_task(t):
    async def waits():
        task = asyncio.create_task(doubled(t), name="T")
        return await task, task.get_name(), task.done()

    result, *rest = asyncio.run(waits())
    return result + 1, rest


def a_loop_of_its_own(t):
    loop = asyncio.new_event_loop()
    try:
        future = loop.create_future()
        future.set_result(t + 1)
        return loop.run_until_complete(future) * 2, future.done(), loop.run_until_complete(doubled(t))
    finally:
        loop.close()


def an_exception(t):
    try:
        asyncio.run(fails(t))
    except ValueError as error:
        return t + 1, repr(error), repr(error.__context__)


def no_loop(t):
    try:
        asyncio.get_running_loop()
    except RuntimeError as error:
        return t + 1, str(error)


@pytest.mark.parametrize("function", [run, gather, a_task, a_loop_of_its_own, an_exception, no_loop])
def test_coroutines_give_what_they_give_in_eager(function: Any) -> None:
    compiled = framejit.compile(function, backend="eager")
    for _ in range(2):
        assert repr(compiled(x)) == repr(function(x))


def test_attributes_of_a_task_that_has_no_dict() -> None:
    def marks(task, t):
        task.mark = getattr(task, "mark", 0) + 1
        return t + task.mark, hasattr(task, "nothing"), hasattr(task, "__dict__")

    async def calls(function):
        task = asyncio.current_task()
        return [repr(function(task, x)) for _ in range(3)], task.mark

    assert asyncio.run(calls(framejit.compile(marks, backend="eager"))) == asyncio.run(calls(marks))
