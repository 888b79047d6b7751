"""A transformer: raw flower measurements in inches become the centimetres that the model was trained on.

    python transformer.py --model_name iris --predictor_host iris-predictor.default --predictor_protocol v2
"""
from serveplane.dataplane.sdk import InferInput, InferRequest, Model, ModelServer, parser

CENTIMETRES = 2.54
LABELS = ("setosa", "versicolor", "virginica")


class Inches(Model):
    """V1 outside, V2 towards the predictor: the protocols need not be the same."""

    def preprocess(self, payload, headers):
        rows = [[value * CENTIMETRES for value in row] for row in payload["instances"]]
        return InferRequest(self.name, [InferInput("input-0", [len(rows), len(rows[0])], "FP64", rows)])

    def postprocess(self, result, headers):
        return {"predictions": [LABELS[int(label)] for label in result.outputs[0].as_numpy()]}


if __name__ == "__main__":
    arguments, _ = parser.parse_known_args()
    ModelServer().start([Inches(arguments.model_name)])
