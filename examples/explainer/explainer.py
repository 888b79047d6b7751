"""An explainer: how often the answer changes when one feature is moved by a tenth, feature by feature.

    python explainer.py --model_name iris --predictor_host iris-predictor.default
"""
from serveplane.dataplane.sdk import Model, ModelServer, parser

STEP = 0.1


class Sensitivity(Model):
    """`:predict` is passed on to the predictor, `:explain` asks it a few times more."""

    async def explain(self, payload, headers):
        return {"explanations": [await self._explained(row, headers) for row in payload["instances"]]}

    async def _explained(self, row, headers):
        moved = [[*row[:i], value * factor, *row[i + 1 :]] for i, value in enumerate(row) for factor in (1 - STEP, 1 + STEP)]
        answer = await self.predictor.predict(self.name, {"instances": [row, *moved]}, headers)
        base, *others = answer["predictions"]
        return [sum(other != base for other in others[2 * i : 2 * i + 2]) / 2 for i in range(len(row))]


if __name__ == "__main__":
    arguments, _ = parser.parse_known_args()
    ModelServer().start([Sensitivity(arguments.model_name)])
