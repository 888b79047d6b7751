"""A custom resource outside of namespaces, with a bit of everything in its schema."""

from tests.embedded.generated.values import Json

GADGET: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.suite.example.com"},
    "spec": {
        "group": "suite.example.com",
        "scope": "Cluster",
        "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "additionalPrinterColumns": [
                    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "default": {"color": "red"},
                                "properties": {
                                    "color": {"type": "string", "enum": ["red", "green"], "default": "green"},
                                    "limits": {
                                        "type": "object",
                                        "properties": {
                                            "cpu": {
                                                "x-kubernetes-int-or-string": True,
                                                "anyOf": [{"type": "integer"}, {"type": "string"}],
                                                "pattern": "^[0-9]+$",
                                            },
                                            "ratio": {
                                                "type": "number",
                                                "exclusiveMinimum": True,
                                                "minimum": 0,
                                                "maximum": 1,
                                            },
                                        },
                                    },
                                    "steps": {
                                        "type": "array",
                                        "maxItems": 2,
                                        "items": {
                                            "type": "object",
                                            "required": ["action"],
                                            "properties": {
                                                "action": {"type": "string"},
                                                "seconds": {"type": "integer", "minimum": 0, "default": 3},
                                            },
                                        },
                                    },
                                    "when": {"type": "string", "format": "date-time"},
                                    "nested": {
                                        "type": "object",
                                        "nullable": True,
                                        "x-kubernetes-map-type": "atomic",
                                        "properties": {
                                            "deep": {
                                                "type": "object",
                                                "properties": {
                                                    "value": {"type": "integer"},
                                                    "list": {
                                                        "type": "array",
                                                        "items": {"type": "integer", "enum": [0, 1, 2]},
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
