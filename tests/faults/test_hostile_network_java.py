"""A run of each scene of `hostile_network` with Java's client, which is a program of its own."""

import pytest
from tests.clients import program
from tests.clients.own_broker import need_client
from tests.faults.hostile_client import Java
from tests.faults.hostile_scene import SCENES, hostile_ground

pytestmark = [pytest.mark.exact, pytest.mark.needs("java")]


def test_the_java_client_is_run_in_all_scenes() -> None:
    need_client(program.java(Java.version, "Sender").ready)
    client = Java()
    try:
        with hostile_ground(client) as ground:
            for scene in SCENES.values():
                if not scene.is_ours_only:
                    assert ground.run(scene, 1).acknowledged_count > 0
    finally:
        client.close()
