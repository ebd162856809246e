"""The connector plugins: their settings, and the validation of configs."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from tailrace import __version__
from tailrace.connect.core.error import ConnectError, no_connector_type
from tailrace.connect.http.call import Scalar, is_true, read_config, read_name, service_of
from tailrace.connect.http.right import require
from tailrace.connect.plugin.connector_setting import CONNECTOR_CLASS, NAME, common_definitions
from tailrace.connect.plugin.converter import AVRO_CLASS, BYTES_CLASS, JSON_CLASS, STRING_CLASS
from tailrace.connect.plugin.error import ConfigError
from tailrace.connect.plugin.known import PLUGINS, find_plugin
from tailrace.connect.plugin.validation import validate
from tailrace.protocol.acl_code import Operation
from tailrace.web.body import BoundedRoute
from tailrace.web.member import Members

router = APIRouter(prefix="/connector-plugins", tags=["Plugins"], route_class=BoundedRoute)


@router.get("")
async def list_plugins(connectors_only: Annotated[str, Query(alias="connectorsOnly")] = "true") -> Any:
    """Return all connector plugins, and with connectorsOnly=false the converters, too."""
    found = [{"class": plugin.class_name, "type": str(plugin.kind), "version": plugin.version} for plugin in PLUGINS]
    converters = [] if is_true(connectors_only) else [STRING_CLASS, JSON_CLASS, BYTES_CLASS, AVRO_CLASS]
    return [*found, *({"class": name, "type": "converter", "version": __version__} for name in converters)]


@router.put("/{plugin}/config/validate")
async def validate_config(request: Request, plugin: str, config: Members[Scalar]) -> Any:
    """Return what is wrong with a config, setting by setting."""
    wanted, given = read_name(plugin), read_config(config)
    await require(request, Operation.ALTER_CONFIGS, given.get(NAME, ""))
    named = given.get(CONNECTOR_CLASS)
    if named is None:
        raise no_connector_type(given)
    try:
        found = find_plugin(named)
    except ConfigError as error:
        raise ConnectError(400, str(error)) from None
    if wanted not in found.names:
        raise ConnectError(400, f"Included connector type {named} does not match request type {wanted}")
    return validate(found, given, service_of(request).options.worker).to_json()


@router.get("/{plugin}/config")
async def list_definitions(plugin: str) -> Any:
    """Return the definitions of a plugin's settings: its own ones, then those of all connectors."""
    name = read_name(plugin)
    try:
        found = find_plugin(name)
    except ConfigError:
        raise ConnectError(404, f"Unknown plugin {name}.") from None
    return [definition.to_json() for definition in (*found.definitions, *common_definitions(found))]
