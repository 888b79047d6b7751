"""The central ConfigMap `inferenceservice-config`, parsed once per change into one frozen value."""

from serveplane.settings.parse import CONFIG_MAP, KSERVE, SHIPPED, SettingProblem, Settings, parse, settings_from

__all__ = ["CONFIG_MAP", "KSERVE", "SHIPPED", "SettingProblem", "Settings", "parse", "settings_from"]
