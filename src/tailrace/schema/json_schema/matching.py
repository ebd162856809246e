"""The size of a largest matching between two groups, by augmenting paths."""

from collections.abc import Callable, Generator
from typing import TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def matching_size(
    matched: dict[int, int],
    left_count: int,
    right_count: int,
    partners: Callable[[int], Generator[Asked, Answer, list[int]]],
) -> Generator[Asked, Answer, int]:
    """Return how many on the left can have a partner of their own on the right.

    `matched` holds pairs to begin with, from left to right. `partners` tells the possible partners of one on the left;
    it may take long, so it is asked only where the answer is needed.
    """
    of_left = dict(matched)
    of_right = {right: left for left, right in matched.items()}
    known: dict[int, list[int]] = {}
    for start in range(left_count):
        if start in of_left:
            continue
        if len(of_left) == min(left_count, right_count):
            break
        came_from: dict[int, int] = {}
        free: int | None = None
        waiting = [start]
        while waiting and free is None:
            left = waiting.pop()
            if left not in known:
                known[left] = yield from partners(left)
            for right in known[left]:
                if right in came_from:
                    continue
                came_from[right] = left
                if right not in of_right:
                    free = right
                    break
                waiting.append(of_right[right])
        while free is not None:  # each on the way takes the partner that it wanted and leaves its old one
            left = came_from[free]
            left_behind = of_left.get(left)
            of_left[left], of_right[free] = free, left
            free = left_behind
    return len(of_left)
